"""InternLM 2 and Intern-S1: a JSON object behind two special tokens."""

from dragoman.governance.harvest.format import Format, Opener
from dragoman.governance.harvest.json_calls import JsonBody, json_reader
from dragoman.governance.harvest.reasoning import THINK

MARKER = "<|action_start|>"
READ = json_reader(
    JsonBody(shapes=("object",), before=("<|plugin|>",), closers=("<|action_end|>",), barred=(MARKER,))
)

FORMATS = (
    Format(
        name="internlm",
        models="InternLM 2, Intern-S1",
        openers=(Opener(marker=MARKER, read=READ, safety="A"),),
        reasoning=(THINK,),
    ),
)
