"""Nemotron before version 3: a JSON list between `<TOOLCALL>` tags."""

from dragoman.governance.harvest.format import Format, Opener
from dragoman.governance.harvest.json_calls import JsonBody, json_reader
from dragoman.governance.harvest.reasoning import THINK

READ = json_reader(JsonBody(shapes=("list",), closers=("</TOOLCALL>",), barred=("<TOOLCALL>",)))

FORMATS = (
    Format(
        name="nemotron",
        models="Llama Nemotron, Nemotron Nano",
        openers=(Opener(marker="<TOOLCALL>", read=READ, safety="B"),),
        reasoning=(THINK,),
    ),
)
