"""Hermes: one JSON object per `<tool_call>` pair."""

from msgspec.structs import replace

from dragoman.governance.harvest.format import Format, Opener, Reasoning
from dragoman.governance.harvest.json_calls import JsonBody, json_reader
from dragoman.governance.harvest.reasoning import IMPLIED_THINK, THINK

MARKER = "<tool_call>"
CLOSER = "</tool_call>"
READ = json_reader(JsonBody(shapes=("object",), closers=(CLOSER,), barred=(MARKER,)))

HERMES = Format(
    name="hermes",
    models="Hermes 2 and 3, Qwen2.5, Qwen3, Granite 4, Trinity and many fine-tunes",
    openers=(Opener(marker=MARKER, read=READ, safety="B"),),
    reasoning=(THINK,),
)
ERNIE_THINK = Reasoning(
    opens="<think>", closes="</think>", implied=True, wraps=(("<response>", "</response>"),)
)

FORMATS = (
    HERMES,
    replace(HERMES, name="qwen3_thinking", models="Qwen3 thinking, QwQ", reasoning=(IMPLIED_THINK,)),
    replace(HERMES, name="ernie", models="Ernie 4.5"),
    replace(HERMES, name="ernie_thinking", models="Ernie 4.5 thinking", reasoning=(ERNIE_THINK,)),
)
