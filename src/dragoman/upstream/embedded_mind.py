"""What the embedded model thinks: from an OpenAI Chat request to an answer, by rules alone.

A wish is a line or clause of the last user message that starts with a verb it knows:

    read FILE · run COMMAND · think · fail · say TEXT

Wishes joined by `and` are carried out at once, in parallel calls; `then` puts them in turns. When results
have come back for all of them it quotes the results and stops.
"""

import re
from collections.abc import Sequence

import msgspec

from dragoman.hub.ids import digest

HELP = (
    "I am the model that is built into dragoman: no key, no network, no opinions. "
    "Your agent reached me, so the way through the gateway works. "
    "Ask me to `read FILE`, `run COMMAND` (join with `and` or `then`), `think`, `fail` or `say TEXT`, "
    "and I will use your agent's own tools."
)

_QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|'[^'\n]*'")
_HELD = re.compile("\0(\\d+)\0")
_TURN_END = re.compile(r"\n+|;\s+|[.!?](?=\s|$)\s*|,?\s*\bthen\b\s*", re.IGNORECASE)
_AT_ONCE = re.compile(r",?\s*\band\b\s*|,\s+", re.IGNORECASE)
_WISH = re.compile(
    r"(?:please\s+|now\s+|first\s+)*(read|run|think|fail|say)\b[:,]?\s*"
    r"(?:the file\s+|file\s+|the command\s+)?(.*)",
    re.IGNORECASE | re.DOTALL,
)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)

#: Tools that can read a file and tools that can run a command, by what their names usually say.
_READERS = re.compile(r"^(read|read_file|view|view_file|cat|open_file)$", re.IGNORECASE)
_RUNNERS = re.compile(
    r"^(bash|shell|exec|exec_command|run_shell_command|run_command|terminal|execute)$", re.IGNORECASE
)
_PATH_FIELDS = ("file_path", "absolute_path", "filePath", "path", "filename", "file")
_COMMAND_FIELDS = ("command", "cmd", "script", "input")
_QUOTED_RESULT = 4000


class PlannedCall(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: str


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[PlannedCall, ...] = ()
    failure: str = ""
    prompt_tokens: int = 0
    reply_tokens: int = 0


class Wish(msgspec.Struct, frozen=True):
    verb: str
    object: str


def think(body: dict[str, object]) -> Thought:
    """The answer to a Chat request, always the same for the same request."""
    raw = msgspec.json.encode(body)
    messages = [message for message in _list(body.get("messages")) if isinstance(message, dict)]
    thought = _answer(body, messages, digest(raw))
    size = len(thought.text) + len(thought.reasoning) + sum(len(c.arguments) for c in thought.calls)
    return msgspec.structs.replace(
        thought, prompt_tokens=max(1, len(raw) // 4), reply_tokens=max(1, size // 4)
    )


def _answer(body: dict[str, object], messages: list[dict[str, object]], seed: str) -> Thought:
    reply_id = f"chatcmpl-{seed}"
    schema = _wanted_schema(body)
    if schema is not None:
        return Thought(id=reply_id, text=msgspec.json.encode(example_of(schema)).decode())
    said, since = _last_wish_message(messages)
    turns = wishes_in(said)
    done = sum(bool(message.get("tool_calls")) for message in since)
    verbs = {wish.verb for turn in turns for wish in turn}
    if "fail" in verbs:
        return Thought(id=reply_id, failure="the embedded model fails because it was asked to")
    reasoning = (
        "The user asked me to think, so I think: do what was asked, then stop." if "think" in verbs else ""
    )
    acting = [turn for turn in turns if any(wish.verb in ("read", "run") for wish in turn)]
    if done < len(acting):
        calls, missing = _plan(acting[done], _list(body.get("tools")), f"{seed}{done}")
        if calls:
            return Thought(id=reply_id, text="On it." if done == 0 else "", reasoning=reasoning, calls=calls)
        return Thought(id=reply_id, text=missing, reasoning=reasoning)
    results = [_text(message.get("content")) for message in since if message.get("role") == "tool"]
    said_texts = [wish.object for turn in turns for wish in turn if wish.verb == "say"]
    parts = [f"Result {number}:\n{_shortened(text)}" for number, text in enumerate(results, 1)] + said_texts
    if not parts:
        parts = ["I have thought about it, and I am done."] if reasoning else [HELP]
    return Thought(id=reply_id, text="\n\n".join(parts), reasoning=reasoning)


def wishes_in(text: str) -> list[list[Wish]]:
    """The wishes of a message, as turns of wishes to carry out at once. Quotes protect what they hold."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0"

    def restored(part: str) -> str:
        whole = _HELD.fullmatch(part.strip())
        if whole:
            return held[int(whole[1])][1:-1].strip()
        return _HELD.sub(lambda found: held[int(found[1])], part).strip()

    turns: list[list[Wish]] = []
    for clause in _TURN_END.split(_QUOTED.sub(hold, text.replace("\0", ""))):
        wishes = []
        for part in _AT_ONCE.split(clause):
            found = _WISH.fullmatch(part.strip())
            if found and (found[2].strip() or found[1].lower() in ("think", "fail")):
                wishes.append(Wish(found[1].lower(), restored(found[2])))
        if wishes:
            turns.append(wishes)
    return turns


def _last_wish_message(messages: list[dict[str, object]]) -> tuple[str, list[dict[str, object]]]:
    """The last thing the user said that holds a wish (or simply the last thing), and what followed it."""
    last: tuple[str, list[dict[str, object]]] | None = None
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].get("role") != "user":
            continue
        text = _REMINDER.sub("", _text(messages[position].get("content"))).strip()
        if not text:
            continue
        found = (text, messages[position + 1 :])
        last = last or found
        if wishes_in(text):
            return found
        if not any(message.get("role") == "tool" for message in messages[position + 1 :]):
            break
    return last or ("", [])


def _plan(wishes: Sequence[Wish], tools: Sequence[object], seed: str) -> tuple[tuple[PlannedCall, ...], str]:
    calls = []
    for number, wish in enumerate(wishes):
        if wish.verb not in ("read", "run"):
            continue
        made = _call_for(wish, tools)
        if made is None:
            names = ", ".join(name for name, _ in _functions(tools)) or "none"
            return (
                (),
                f"I would {wish.verb} {wish.object}, but no tool of yours can do that (tools: {names}).",
            )
        name, arguments = made
        calls.append(PlannedCall(f"call_{digest(seed, str(number))}", name, arguments))
    return tuple(calls), ""


def _call_for(wish: Wish, tools: Sequence[object]) -> tuple[str, str] | None:
    """The tool and arguments that carry out a wish; a file can also be read by running `cat`."""
    functions = _functions(tools)
    if wish.verb == "read":
        for name, schema in functions:
            field = _field(schema, _PATH_FIELDS)
            if field and _READERS.match(_bare(name)):
                return name, _arguments(schema, {field: wish.object})
        wish = Wish("run", f"cat {wish.object}")
    for name, schema in functions:
        field = _field(schema, _COMMAND_FIELDS)
        if field and _RUNNERS.match(_bare(name)):
            return name, _arguments(schema, {field: _command(schema, field, wish.object, _bare(name))})
    return None


def _command(schema: dict[str, object], field: str, command: str, name: str) -> object:
    properties = schema.get("properties")
    declared = properties.get(field) if isinstance(properties, dict) else None
    if isinstance(declared, dict) and declared.get("type") == "array":
        return ["bash", "-lc", command]
    if name == "exec" and field == "input":
        # Codex's `exec` takes a script that calls its other tools.
        quoted = msgspec.json.encode(command).decode()
        return f"const result = await tools.exec_command({{cmd: {quoted}}});\ntext(result.output ?? result);"
    return command


def _arguments(schema: dict[str, object], values: dict[str, object]) -> str:
    """The values, and something for every other field that the tool requires."""
    properties = schema.get("properties")
    required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
    filled = dict(values)
    for name in required:
        if name not in filled and isinstance(properties, dict):
            filled[name] = example_of(properties.get(name))
    return msgspec.json.encode(filled).decode()


def _functions(tools: Sequence[object]) -> list[tuple[str, dict[str, object]]]:
    found = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            schema = function.get("parameters")
            found.append((function["name"], schema if isinstance(schema, dict) else {}))
    return found


def _bare(name: str) -> str:
    return name.rpartition("__")[2]


def _field(schema: dict[str, object], wanted: Sequence[str]) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    return next((name for name in wanted if name in properties), "")


def _wanted_schema(body: dict[str, object]) -> dict[str, object] | None:
    wanted = body.get("response_format")
    inner = wanted.get("json_schema") if isinstance(wanted, dict) else None
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def example_of(schema: object, depth: int = 0) -> object:
    """A small value that a JSON schema accepts, for the plain schemas that agents send."""
    if not isinstance(schema, dict) or depth > 20:
        return "example"
    for keyword in ("const", "default"):
        if keyword in schema:
            return schema[keyword]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    name = kind.lower() if isinstance(kind, str) else "object" if "properties" in schema else "string"
    if name == "object":
        properties = schema.get("properties")
        required = _list(schema.get("required"))
        members = properties.items() if isinstance(properties, dict) else ()
        return {
            key: example_of(inner, depth + 1) for key, inner in members if key in required or not required
        }
    return {"array": [], "number": 0, "integer": 0, "boolean": False, "null": None}.get(
        name, "Embedded model"
    )


def _shortened(text: str) -> str:
    return (
        text if len(text) <= _QUOTED_RESULT else f"{text[:_QUOTED_RESULT]}\n… ({len(text)} characters in all)"
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = (part.get("text") for part in _list(content) if isinstance(part, dict))
    return "\n".join(text for text in parts if isinstance(text, str))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
