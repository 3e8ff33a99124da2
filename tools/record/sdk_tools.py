"""The two tools of the SDK applications, declared for each dialect, and their made-up results."""

from typing import Any

from tools.record.scrub import TINY_PNG

SYSTEM = "You read files and run commands for the user."
_READ = ("read_file", "Reads a file.", "path")
_RUN = ("run", "Runs a command.", "command")


def _schema(parameter: str) -> dict[str, Any]:
    properties = {parameter: {"type": "string", "description": f"The {parameter}."}}
    return {
        "type": "object",
        "properties": properties,
        "required": [parameter],
        "additionalProperties": False,
    }


def _functions(parameters_key: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "description": about, parameters_key: _schema(parameter)}
        for name, about, parameter in (_READ, _RUN)
    ]


MESSAGES_TOOLS = _functions("input_schema")
CHAT_TOOLS = [
    {"type": "function", "function": function | {"strict": True}} for function in _functions("parameters")
]
RESPONSES_TOOLS = [{"type": "function", "strict": True, **function} for function in _functions("parameters")]
GEMINI_TOOLS = [{"function_declarations": _functions("parameters_json_schema")}]


def result_of(arguments: dict[str, Any]) -> tuple[str, bool, str]:
    """The text of a result, whether the call failed, and an image in base64 where there is one."""
    path = str(arguments.get("path", ""))
    if path.endswith("notes.txt"):
        return "hello from the notes", False, ""
    if path.endswith("pixel.png"):
        return "the file is an image", False, TINY_PNG
    if "command" in arguments:
        return "hi", False, ""
    return "the file is missing", True, ""
