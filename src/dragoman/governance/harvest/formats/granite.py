"""Granite 3: a JSON list behind a marker, with nothing to close it; Granite 20b: one object per marker."""

from dragoman.governance.harvest.format import Format, Opener, Reasoning
from dragoman.governance.harvest.json_calls import JsonBody, json_reader

LIST = json_reader(JsonBody(shapes=("list",), closers=("</tool_call>",), optional=True))
OBJECT = json_reader(JsonBody(shapes=("object",), barred=("<function_call>",)))

GRANITE = (
    Opener(marker="<|tool_call|>", read=LIST, safety="A"),
    # Without a closing tag there is no wrapper to believe in where the family is unknown.
    Opener(marker="<tool_call>", read=LIST, safety="B", auto=False),
)
#: Sentences, which an answer may well begin with.
SPOKEN = Reasoning(opens="Here is my thought process:", closes="Here is my response:", certain=False)

FORMATS = (
    Format(name="granite", models="Granite 3", openers=GRANITE),
    Format(name="granite_spoken", models="Granite 3.2 with thinking", openers=GRANITE, reasoning=(SPOKEN,)),
    Format(
        name="granite_20b",
        models="Granite 20b function calling",
        openers=(Opener(marker="<function_call>", read=OBJECT, safety="B", auto=False),),
    ),
)
