"""Descriptions and schemas of the tools that only the models of their own vendor are trained on.

The client runs these tools. The schemas describe what it expects in the arguments of a call; the names of the
members are the vendors' own.
"""

import msgspec

from dragoman.hub.blocks import Tool
from dragoman.schema import Schema

#: The only member of the arguments of a free-text tool that is sent as a function.
INPUT = "input"

INPUT_SCHEMA: Schema = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": [INPUT],
    "additionalProperties": False,
}


class ToolDescription(msgspec.Struct, frozen=True):
    """What a model needs to call a tool: a description and the schema of its arguments."""

    text: str
    schema: Schema


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _string(description: str, *values: str) -> Schema:
    return {"type": "string", "description": description, **({"enum": list(values)} if values else {})}


def _integer(description: str) -> Schema:
    return {"type": "integer", "description": description}


def _list(description: str, kind: str, size: int = 0) -> Schema:
    bounds = {"minItems": size, "maxItems": size} if size else {}
    return {"type": "array", "description": description, "items": {"type": kind}, **bounds}


_POINT = "Position on the screen in pixels: x from the left, y from the top."
_ACTIONS = (  # noqa: SIM905 (a list of seventeen lines otherwise)
    "screenshot left_click right_click middle_click double_click triple_click left_click_drag "
    "left_mouse_down left_mouse_up mouse_move cursor_position scroll key hold_key type wait zoom"
).split()

#: The members that the text editor and the memory tool share.
_FILE_MEMBERS: dict[str, Schema] = {
    "view_range": _list(
        "First and last line to show, counted from 1; -1 as the last means the end.", "integer", 2
    ),
    "file_text": _string("For `create`: the whole text."),
    "old_str": _string("For `str_replace`: the text to replace, which must occur exactly once."),
    "new_str": _string("For `str_replace`: the text to put in its place."),
    "insert_line": _integer("For `insert`: the line after which to insert; 0 is the beginning."),
    "insert_text": _string("For `insert`: the text to insert."),
}

#: The tools that the client runs: OpenAI's by kind, Anthropic's by common name.
DESCRIPTIONS: dict[str, ToolDescription] = {
    "local_shell": ToolDescription(
        "Runs a command on the user's machine and returns its output.",
        _object(
            ["command"],
            command=_list("The program and its arguments.", "string"),
            working_directory=_string("Where to run it."),
            timeout_ms=_integer("How long it may take, in milliseconds."),
            env={
                "type": "object",
                "description": "Environment variables to set.",
                "additionalProperties": {"type": "string"},
            },
            user=_string("The user to run it as."),
        ),
    ),
    "shell": ToolDescription(
        "Runs shell commands and returns the output of each.",
        _object(
            ["commands"],
            commands=_list("The commands, each a line of shell.", "string"),
            timeout_ms=_integer("How long they may take, in milliseconds."),
            max_output_length=_integer("How many characters of output to return at most."),
        ),
    ),
    "apply_patch": ToolDescription(
        "Creates, changes or deletes one file.",
        _object(
            ["type", "path"],
            type=_string("What to do.", "create_file", "update_file", "delete_file"),
            path=_string("The file."),
            diff=_string("What to change, as a diff in the V4A format; not needed to delete."),
        ),
    ),
    "tool_search": ToolDescription(
        "Finds tools that are available but not loaded yet, and loads them.",
        _object(
            ["query"],
            query=_string("What the tool should be able to do."),
            limit=_integer("How many tools to load at most."),
        ),
    ),
    "bash": ToolDescription(
        "Runs a command in a persistent bash session and returns its output.",
        _object(
            [],
            command=_string("The command; needed unless the session is restarted."),
            restart={"type": "boolean", "description": "Start the session anew."},
        ),
    ),
    "text_editor": ToolDescription(
        "Views, creates and edits text files.",
        _object(
            ["command", "path"],
            command=_string("What to do.", "view", "create", "str_replace", "insert"),
            path=_string("The file or directory."),
            **_FILE_MEMBERS,
        ),
    ),
    "memory": ToolDescription(
        "Keeps notes between conversations, as files below /memories.",
        _object(
            ["command"],
            command=_string("What to do.", "view", "create", "str_replace", "insert", "delete", "rename"),
            path=_string("The file or directory; not used by `rename`."),
            **_FILE_MEMBERS,
            old_path=_string("For `rename`: the file as it is called now."),
            new_path=_string("For `rename`: what to call it."),
        ),
    ),
    "computer": ToolDescription(
        "Uses the screen, mouse and keyboard of a computer.",
        _object(
            ["action"],
            action=_string("What to do.", *_ACTIONS),
            coordinate=_list(_POINT, "integer", 2),
            start_coordinate=_list("For `left_click_drag`: where to begin. " + _POINT, "integer", 2),
            text=_string("For `type`: the text. For `key` and `hold_key`: the keys, such as `ctrl+s`."),
            duration={"type": "number", "description": "For `wait` and `hold_key`: seconds."},
            scroll_direction=_string("For `scroll`.", "up", "down", "left", "right"),
            scroll_amount=_integer("For `scroll`: how many clicks of the wheel."),
            region=_list("For `zoom`: left, top, right and bottom of what to show.", "integer", 4),
        ),
    ),
}

#: Families that only models trained on them use well, also with a description.
NEEDS_TRAINING = frozenset({"computer"})

#: Facts about the user's machine in Anthropic's declarations, as sentences for the description.
_FACTS = {
    "display_width_px": "The screen is {} pixels wide.",
    "display_height_px": "The screen is {} pixels high.",
    "max_characters": "Files are cut to {} characters.",
}


def describe(tool: Tool) -> ToolDescription | None:
    """The description for models that were not trained on this tool; None if the tool is not known here."""
    known = DESCRIPTIONS.get(tool.common_name if tool.kind == "typed" else tool.kind)
    if known is None:
        return None
    facts = [
        sentence.format(value)
        for name, sentence in _FACTS.items()
        if isinstance(value := tool.extras.get(name), int)
    ]
    text = " ".join([tool.description or known.text, *facts])
    return ToolDescription(text, tool.schema or known.schema)
