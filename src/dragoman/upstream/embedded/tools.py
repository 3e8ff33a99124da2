"""How the embedded model carries out wishes with whatever tools the client declared."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.upstream.embedded.commands import Wish
from dragoman.upstream.embedded.examples import example_of

#: Tools that read files and tools that run commands, by what their names say in the agents we know.
_READERS = re.compile(r"(read|read_?file|view|view_?file|cat|open_?file)", re.IGNORECASE)
_RUNNERS = re.compile(
    r"(bash|shell|exec|exec_?command|run_?shell_?command|run_?command|run|terminal|execute|local_?shell)",
    re.IGNORECASE,
)
_PATH_FIELDS = ("file_path", "absolute_path", "filePath", "path", "filename", "file", "file_name")
_COMMAND_FIELDS = ("command", "cmd", "commands", "script", "input", "code")
_NAMED_CALL = re.compile(r"([\w.:-]+)\s*(?:with\s+)?(\{.*\})?", re.DOTALL)

#: An application of few tools means one of them when it uses a word of its name.
FEW = 5
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_EMPTY_WORDS = frozenset(
    {"about", "call", "create", "data", "fetch", "file", "files", "find", "from", "get", "info", "list"}
    | {"lookup", "make", "read", "run", "search", "set", "show", "tool", "tools", "update", "what", "write"}
)


class Function(msgspec.Struct, frozen=True):
    """A tool that was declared as a function."""

    name: str
    schema: dict[str, object]

    @property
    def bare(self) -> str:
        """The name without the namespace that translation may have put before it."""
        return self.name.rpartition("__")[2].rpartition(".")[2]

    def field(self, wanted: Sequence[str]) -> str:
        """The first of the wanted fields that it has."""
        properties = self.schema.get("properties")
        return (
            next((name for name in wanted if name in properties), "") if isinstance(properties, dict) else ""
        )

    def filled(self, values: Mapping[str, object]) -> str:
        """Arguments: the values, and something for every other field that is required."""
        required = self.schema.get("required")
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        properties = self.schema.get("properties")
        schemas = properties if isinstance(properties, dict) else {}
        rest = {name: example_of(schemas.get(name), self.schema) for name in names if name not in values}
        return msgspec.json.encode({**values, **rest}).decode()


def functions_in(tools: object) -> list[Function]:
    """The functions among a Chat request's tools."""
    found = []
    for tool in tools if isinstance(tools, list) else []:
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            schema = function.get("parameters")
            found.append(Function(function["name"], schema if isinstance(schema, dict) else {}))
    return found


def call_for(wish: Wish, functions: Sequence[Function]) -> tuple[str, str] | None:
    """The tool and the arguments that carry out a wish; None if no tool can."""
    if wish.verb == "call":
        return _named_call(wish, functions)
    if wish.verb == "read":
        for function in functions:
            field = function.field(_PATH_FIELDS)
            if field and _READERS.fullmatch(function.bare):
                return function.name, function.filled({field: wish.object})
    command = _COMMANDS[wish.verb].format(wish.object).strip()
    for function in functions:
        field = function.field(_COMMAND_FIELDS)
        if field and _RUNNERS.fullmatch(function.bare):
            return function.name, function.filled({field: _spelled(command, function, field)})
    return None


#: What to run for each wish, also for reading where no tool reads.
_COMMANDS = {"read": "cat {}", "list": "ls {}", "run": "{}"}


def _spelled(command: str, function: Function, field: str) -> object:
    """The command as the tool wants it: a text, a list of arguments, or Codex's script."""
    properties = function.schema["properties"]
    declared = properties.get(field) if isinstance(properties, dict) else None
    if isinstance(declared, dict) and declared.get("type") == "array":
        return ["bash", "-lc", command]
    if function.bare == "exec" and field == "input":
        # Codex's `exec` takes a script that calls its other tools.
        quoted = msgspec.json.encode(command).decode()
        return f"const result = await tools.exec_command({{cmd: {quoted}}});\ntext(result.output ?? result);"
    return command


def _named_call(wish: Wish, functions: Sequence[Function]) -> tuple[str, str] | None:
    found = _NAMED_CALL.match(wish.object)
    if found is None:
        return None
    for function in functions:
        if found[1].lower() in (function.name.lower(), function.bare.lower()):
            return function.name, function.filled(_arguments(found[2] or "{}"))
    return None


def _arguments(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return {}


def meant_call(text: str, functions: Sequence[Function]) -> tuple[str, str] | None:
    """The call that a question to a small application means: a tool whose name shares a word with it."""
    if len(functions) > FEW:
        return None
    said = {word.lower() for word in _WORDS.findall(text)} - _EMPTY_WORDS
    for function in functions:
        names = {word.lower() for word in _WORDS.findall(function.bare)}
        if any(len(word) > 2 for word in said & names):
            return function.name, function.filled({})
    return None
