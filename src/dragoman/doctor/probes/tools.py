"""The tools that the doctor offers to models, and what their results are."""

import msgspec

Tool = dict[str, object]


def _tool(name: str, about: str, member: str) -> Tool:
    schema = {"type": "object", "properties": {member: {"type": "string"}}, "required": [member]}
    return {"name": name, "description": about, "input_schema": schema}


WEATHER = _tool("get_weather", "Tells the weather in a city.", "city")
NOTE = _tool("save_note", "Saves a text, exactly as it is given.", "text")

#: A degree that no model would guess.
REPORT = "It is 83 degrees in the shade."
PROOF = "83"


def call_of(name: str, **arguments: str) -> str:
    """A wish for a call, in words that every model understands, the embedded one too."""
    return f"call {name} {msgspec.json.encode(arguments).decode()}"
