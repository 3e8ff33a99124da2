"""Phi-4-mini: a JSON list right behind the word `functools`, which alone is a module of Python."""

from dragoman.governance.harvest.format import Format, Opener
from dragoman.governance.harvest.json_calls import JsonBody, json_reader
from dragoman.governance.harvest.reasoning import THINK

WORD = "functools"

FORMATS = (
    Format(
        name="phi4_mini",
        models="Phi-4-mini",
        openers=(
            Opener(
                marker=f"{WORD}[",
                read=json_reader(JsonBody(shapes=("list",))),
                safety="B",
                inside=len(WORD),
                auto=False,
            ),
        ),
    ),
    Format(name="phi4_reasoning", models="Phi-4-reasoning", reasoning=(THINK,)),
)
