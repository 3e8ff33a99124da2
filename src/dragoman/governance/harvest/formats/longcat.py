"""LongCat: like Hermes, with a tag of its own."""

from dragoman.governance.harvest.format import Format, Opener
from dragoman.governance.harvest.json_calls import JsonBody, json_reader

MARKER = "<longcat_tool_call>"
READ = json_reader(JsonBody(shapes=("object",), closers=("</longcat_tool_call>",), barred=(MARKER,)))

FORMATS = (
    Format(
        name="longcat",
        models="LongCat",
        openers=(Opener(marker=MARKER, read=READ, safety="A"),),
    ),
)
