"""Jamba and Hunyuan A13B: a JSON list between `<tool_calls>` tags; MiniMax M1: one object per line there.

The marker leaves out the bracket, because others put more behind the tag's name.
"""

from dragoman.governance.harvest.format import Format, Opener, Reasoning
from dragoman.governance.harvest.json_calls import JsonBody, Shape, json_reader
from dragoman.governance.harvest.reasoning import THINK

MARKER = "<tool_calls"


def _opener(shape: Shape) -> Opener:
    body = JsonBody(shapes=(shape,), before=(">",), closers=("</tool_calls>",), barred=("<tool_calls>",))
    return Opener(marker=MARKER, read=json_reader(body), safety="B")


HUNYUAN_THINK = Reasoning(opens="<think>", closes="</think>", wraps=(("<answer>", "</answer>"),))

FORMATS = (
    Format(name="jamba", models="Jamba", openers=(_opener("list"),)),
    Format(
        name="hunyuan_a13b",
        models="Hunyuan A13B",
        openers=(_opener("list"),),
        reasoning=(HUNYUAN_THINK,),
    ),
    Format(name="minimax_m1", models="MiniMax M1", openers=(_opener("lines"),), reasoning=(THINK,)),
)
