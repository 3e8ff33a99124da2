"""Seed-OSS: the tags of Qwen3 Coder in a wrapper of its own."""

from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import Context, Format, Opener, Reading, Reasoning
from dragoman.governance.harvest.formats.qwen3_coder import FUNCTION
from dragoman.governance.harvest.tagged import read_wrapped


def read(cursor: Cursor, context: Context) -> Reading:
    return (yield from read_wrapped(cursor, context, FUNCTION, "</seed:tool_call>"))


FORMATS = (
    Format(
        name="seed_oss",
        models="Seed-OSS",
        openers=(Opener(marker="<seed:tool_call>", read=read, safety="A"),),
        reasoning=(Reasoning(opens="<seed:think>", closes="</seed:think>"),),
    ),
)
