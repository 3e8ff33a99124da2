"""The client's tools: which one carries out a command, and with which arguments.

Arguments that a tool requires and a command does not give are filled with small values that the tool's JSON
Schema accepts.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.schema.nodes import properties_of, required_of, resolve
from dragoman.upstream.embedded.commands import PromptCommand

#: Names of the tools that read files and run commands, in the agents that we know.
_READERS = re.compile(r"(read|read_?file|view|view_?file|cat|open_?file)", re.IGNORECASE)
_RUNNERS = re.compile(
    r"(bash|shell|exec|exec_?command|run_?shell_?command|run_?command|run|terminal|execute|local_?shell)",
    re.IGNORECASE,
)
_PATH_FIELDS = ("file_path", "absolute_path", "filePath", "path", "filename", "file", "file_name")
_COMMAND_FIELDS = ("command", "cmd", "commands", "script", "input", "code")
_NAMED_CALL = re.compile(r"([\w.:-]+)\s*(?:with\s+)?(\{.*\})?", re.DOTALL)
#: Shell command per verb. `read` runs `cat` if no tool reads files.
_SHELL = {"read": "cat {}", "list": "ls {}", "run": "{}"}

#: Up to this many tools, a question that shares a word with a tool's name calls that tool.
MAX_GUESS_TOOLS = 5
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_COMMON_WORDS = frozenset(
    {"about", "call", "create", "data", "fetch", "file", "files", "find", "from", "get", "info", "list"}
    | {"lookup", "make", "read", "run", "search", "set", "show", "tool", "tools", "update", "what", "write"}
)

#: Limits of an example: a schema may refer to itself. Deeper or later values are `EXAMPLE_TEXT`.
MAX_DEPTH = 12
MAX_VALUES = 2_000
#: Numbers in a schema from here on are ignored.
MAX_NUMBER = 1e15
EXAMPLE_TEXT = "example"
_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "user@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "hostname": "example.com",
}

Schema = Mapping[str, object]


class ChatFunction(msgspec.Struct, frozen=True):
    """A function tool of a Chat request."""

    name: str
    schema: dict[str, object]

    @property
    def bare_name(self) -> str:
        """The name without the namespace that translation may have put before it."""
        return self.name.rpartition("__")[2].rpartition(".")[2]

    def find_field(self, names: Sequence[str]) -> str:
        """Return the first of the names that is a property, or an empty text."""
        properties = properties_of(self.schema)
        return next((name for name in names if name in properties), "")

    def build_arguments(self, values: Schema) -> str:
        """Build arguments as JSON: the values, and an example for each other required property."""
        properties = properties_of(self.schema)
        missing = [name for name in required_of(self.schema) if name not in values]
        rest = {name: build_example(properties.get(name), self.schema) for name in missing}
        return msgspec.json.encode({**values, **rest}).decode()


def read_functions(tools: object) -> list[ChatFunction]:
    """Read the functions among the tools of a Chat request."""
    functions = [_object(_object(tool).get("function")) for tool in _list(tools)]
    return [
        ChatFunction(name, dict(_object(function.get("parameters"))))
        for function in functions
        if isinstance(name := function.get("name"), str)
    ]


def build_call(command: PromptCommand, functions: Sequence[ChatFunction]) -> tuple[str, str] | None:
    """Build tool name and arguments that carry out a command, or None if no tool can."""
    if command.verb == "call":
        return _build_named_call(command, functions)
    if command.verb == "read":
        for function in functions:
            field = function.find_field(_PATH_FIELDS)
            if field and _READERS.fullmatch(function.bare_name):
                return function.name, function.build_arguments({field: command.object})
    shell = _SHELL[command.verb].format(command.object).strip()
    for function in functions:
        field = function.find_field(_COMMAND_FIELDS)
        if field and _RUNNERS.fullmatch(function.bare_name):
            return function.name, function.build_arguments({field: _write_shell(shell, function, field)})
    return None


def _write_shell(command: str, function: ChatFunction, field: str) -> object:
    """Write a shell command in the form of the tool: a text, a list of arguments, or Codex's script."""
    declared = _object(properties_of(function.schema).get(field))
    if declared.get("type") == "array":
        return ["bash", "-lc", command]
    if function.bare_name == "exec" and field == "input":
        # Codex's `exec` takes a script that calls its other tools.
        quoted = msgspec.json.encode(command).decode()
        return f"const result = await tools.exec_command({{cmd: {quoted}}});\ntext(result.output ?? result);"
    return command


def _build_named_call(command: PromptCommand, functions: Sequence[ChatFunction]) -> tuple[str, str] | None:
    match = _NAMED_CALL.match(command.object)
    if match is None:
        return None
    for function in functions:
        if match[1].lower() in (function.name.lower(), function.bare_name.lower()):
            return function.name, function.build_arguments(_read_arguments(match[2] or "{}"))
    return None


def _read_arguments(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return {}


def guess_call(text: str, functions: Sequence[ChatFunction]) -> tuple[str, str] | None:
    """Guess the call that a question means, in an application with few tools: by a shared word."""
    if len(functions) > MAX_GUESS_TOOLS:
        return None
    question = {word.lower() for word in _WORDS.findall(text)} - _COMMON_WORDS
    for function in functions:
        words = {word.lower() for word in _WORDS.findall(function.bare_name)}
        if any(len(word) > 2 for word in question & words):
            return function.name, function.build_arguments({})
    return None


def build_example(schema: object, root: object = None) -> object:
    """Build a small value that the schema accepts. `$ref`s point into `root`, or into the schema itself."""
    return _ExampleBuilder(schema if root is None else root).build(schema, 0)


class _ExampleBuilder:
    """Builds an example value for a schema, of at most `MAX_VALUES` values."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._count = 0

    def build(self, schema: object, depth: int) -> object:
        self._count += 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._count > MAX_VALUES:
            return EXAMPLE_TEXT
        schema = self._resolve(schema, depth)
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        for keyword in ("enum", "examples"):
            if choices := _list(schema.get(keyword)):
                return choices[0]
        for keyword in ("anyOf", "oneOf"):
            if choices := _list(schema.get(keyword)):
                nulls = (choice for choice in choices if _object(choice).get("type") == "null")
                return self.build(next(nulls, choices[0]), depth + 1)
        return self._build_type(_read_type(schema), schema, depth)

    def _build_type(self, name: str, schema: Schema, depth: int) -> object:
        if name == "object":
            properties = properties_of(schema)
            members = required_of(schema) or properties
            return {member: self.build(properties.get(member, {}), depth + 1) for member in members}
        if name == "array":
            count = min(int(_read_number(schema, "minItems", 0)), 10)
            return [self.build(schema.get("items"), depth + 1) for _ in range(count)]
        if name in ("integer", "number"):
            return _build_number(schema)
        if name == "string":
            text = _FORMATS.get(str(schema.get("format", "")), EXAMPLE_TEXT)
            text = text.ljust(min(int(_read_number(schema, "minLength", 0)), 1000), "x")
            return text[: max(0, int(_read_number(schema, "maxLength", len(text))))]
        return {"boolean": False, "null": None}.get(name, EXAMPLE_TEXT)

    def _resolve(self, schema: dict[str, object], depth: int) -> dict[str, object]:
        """Follow `$ref` and join the parts of `allOf`."""
        schema = dict(_object(resolve(schema, self._root)))
        self._count += 1
        parts = schema.pop("allOf", None)
        if not isinstance(parts, list) or depth > MAX_DEPTH or self._count > MAX_VALUES:
            return schema
        for part in parts:
            for key, value in (self._resolve(part, depth + 1) if isinstance(part, dict) else {}).items():
                schema[key] = _join(schema.get(key), value)
        return schema


def _join(earlier: object, value: object) -> object:
    """Join two values of one keyword."""
    if isinstance(earlier, dict) and isinstance(value, dict):
        return {**earlier, **value}
    if isinstance(earlier, list) and isinstance(value, list):
        return [*earlier, *value]
    return value


def _read_type(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        # Gemini writes types in capitals.
        return kind.lower()
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _build_number(schema: Schema) -> int | float:
    # 1 and not 0: clients with undeclared bounds often refuse 0.
    least = _read_number(schema, "minimum", _read_number(schema, "exclusiveMinimum", 0) + 1)
    most = _read_number(schema, "maximum", _read_number(schema, "exclusiveMaximum", least + 2) - 1)
    return least if least <= most else most


def _read_number(schema: Schema, keyword: str, default: int | float) -> int | float:
    value = schema.get(keyword)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return value if abs(value) < MAX_NUMBER else default


def _object(value: object) -> Schema:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
