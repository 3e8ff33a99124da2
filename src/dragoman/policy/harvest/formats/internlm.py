"""InternLM 2 and Intern-S1: a JSON object behind two special tokens."""

from dragoman.policy.harvest.format import Format, Opener
from dragoman.policy.harvest.json_calls import JsonBody, json_reader
from dragoman.policy.harvest.reasoning import THINK

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
