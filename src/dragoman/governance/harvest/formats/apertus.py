"""Apertus: a JSON list of objects with one member each, whose key is the tool's name."""

from dragoman.governance.harvest.format import Format, Opener
from dragoman.governance.harvest.json_calls import JsonBody, json_reader

MARKER = "<|tools_prefix|>"
READ = json_reader(JsonBody(shapes=("list",), closers=("<|tools_suffix|>",), barred=(MARKER,), keyed=True))

FORMATS = (Format(name="apertus", models="Apertus", openers=(Opener(marker=MARKER, read=READ, safety="A"),)),)
