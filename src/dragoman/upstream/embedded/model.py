"""What the embedded model thinks: from an OpenAI Chat request to an answer, by rules alone.

It carries out the wishes of the last prompt, turn by turn, with the client's own tools, then shows what came
back and stops. The same request always gets the same answer.
"""

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.hub.ids import digest
from dragoman.upstream.embedded.commands import ACTING, MAX_TEXT, Wish, status_in, wishes_in, without_context
from dragoman.upstream.embedded.examples import example_of
from dragoman.upstream.embedded.tools import Function, call_for, functions_in, meant_call

HELP = (
    "I am the model that is built into dragoman: no key, no network, no opinions. "
    "Your agent reached me, so the way through the gateway works. "
    "Ask me to `read FILE`, `list DIRECTORY`, `run COMMAND` or `call TOOL {ARGUMENTS}` and I will use your "
    "agent's own tools; join wishes with `and` or `then`. "
    "I can also `say TEXT`, `think`, `fail`, `fail with 429`, `fail midway` and `break off`."
)
THOUGHT = "The user asked me to think. So: do what was asked, in the order it was asked, then stop."
#: The answer to a client that wants JSON and says no more.
JSON_ANSWER: dict[str, object] = {"type": "object", "properties": {"answer": {"type": "string"}}}
_QUOTED_RESULT = 4000
#: Messages among which the last prompt is looked for.
_LOOKED_BACK = 200
_BYTES_PER_TOKEN = 4

Message = Mapping[str, object]


class PlannedCall(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: str


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. `status` refuses instead; `cut` says how the stream ends before its time."""

    id: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[PlannedCall, ...] = ()
    finish: str = "stop"
    status: int = 200
    cut: str = ""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    #: A streaming client asked for these numbers.
    tells_usage: bool = False


def think(body: Mapping[str, object]) -> Thought:
    raw = msgspec.json.encode(body)
    thought = _limited(_answer(_Situation(body), digest(raw)), body)
    size = len(thought.text) + len(thought.reasoning) + sum(len(call.arguments) for call in thought.calls)
    return msgspec.structs.replace(
        thought,
        finish="tool_calls" if thought.calls else thought.finish,
        prompt_tokens=max(1, len(raw) // _BYTES_PER_TOKEN),
        reply_tokens=max(1, size // _BYTES_PER_TOKEN),
        tells_usage=_tells_usage(body.get("stream_options")),
    )


class _Situation:
    """Where a conversation stands: the last prompt, its wishes, and what has happened since."""

    def __init__(self, body: Mapping[str, object]) -> None:
        messages = [message for message in _list(body.get("messages")) if isinstance(message, dict)]
        self.said, self.since = _last_prompt(messages)
        turns = wishes_in(self.said)
        self.wishes = [wish for turn in turns for wish in turn]
        self.verbs = {wish.verb: wish for wish in self.wishes}
        acting = [[wish for wish in turn if wish.verb in ACTING] for turn in turns]
        if body.get("parallel_tool_calls") is False:
            acting = [[wish] for turn in acting for wish in turn]
        self.turns = [turn for turn in acting if turn]
        self.done = sum(bool(message.get("tool_calls")) for message in self.since)
        self.schema = _wanted_schema(body)
        self.choice, self.chosen = _choice(body.get("tool_choice"))
        self.functions = [] if self.choice == "none" else functions_in(body.get("tools"))


def _answer(now: _Situation, seed: str) -> Thought:
    thought = Thought(id=f"chatcmpl-{seed}", reasoning=THOUGHT if "think" in now.verbs else "")
    if "fail" in now.verbs:
        wish = now.verbs["fail"]
        if wish.object.lower().startswith(("mid", "halfway", "in the middle", "later")):
            return msgspec.structs.replace(thought, text=HELP, cut="error")
        return msgspec.structs.replace(thought, status=status_in(wish))
    if "break off" in now.verbs:
        return msgspec.structs.replace(thought, text=HELP, cut="silence")
    calls, excuse = _calls(now, seed)
    if calls:
        text = "" if now.done or now.schema else "On it."
        return msgspec.structs.replace(thought, text=text, calls=calls)
    if now.schema is not None:
        text = msgspec.json.encode(example_of(now.schema)).decode()
        return msgspec.structs.replace(thought, text=text)
    return msgspec.structs.replace(thought, text=excuse or _words(now))


def _calls(now: _Situation, seed: str) -> tuple[tuple[PlannedCall, ...], str]:
    """The calls of the next turn; or why there are none although there should be."""
    planned: list[tuple[str, str]] = []
    if now.done < len(now.turns):
        for wish in now.turns[now.done]:
            call = call_for(wish, now.functions)
            if call is None:
                return (), _excuse(wish, now.functions)
            planned.append(call)
    elif not now.done and not now.wishes:
        meant = _forced(now) or meant_call(now.said, now.functions)
        planned = [meant] if meant else []
    ids = (f"call_{digest(seed, str(number))}" for number in range(len(planned)))
    return tuple(PlannedCall(id, *call) for id, call in zip(ids, planned, strict=False)), ""


def _forced(now: _Situation) -> tuple[str, str] | None:
    """A call that the client insists on."""
    for function in now.functions:
        if now.choice == "required" or function.name == now.chosen:
            return function.name, function.filled({})
    return None


def _excuse(wish: Wish, functions: Sequence[Function]) -> str:
    names = ", ".join(function.name for function in functions) or "none"
    return (
        f"I would {wish.verb} {wish.object}".rstrip() + f", but no tool of yours does that (tools: {names})."
    )


def _words(now: _Situation) -> str:
    """What came back from each call, what was to be said, or who is speaking."""
    acted = [wish for turn in now.turns for wish in turn]
    results = [_text(message.get("content")) for message in now.since if message.get("role") == "tool"]
    parts = []
    for number, result in enumerate(results):
        label = f"{acted[number].verb} {acted[number].object}".strip() if number < len(acted) else "result"
        parts.append(f"{label}:\n{_shortened(result)}")
    parts += [wish.object for wish in now.wishes if wish.verb == "say"]
    if not parts:
        parts = ["I have thought about it, and I am done." if "think" in now.verbs else HELP]
    return "\n\n".join(parts)


def _last_prompt(messages: list[dict[str, object]]) -> tuple[str, list[dict[str, object]]]:
    """The last prompt that still waits for its answer, and the messages behind it.

    Agents put reminders between results. They are no prompts, so a prompt with wishes goes before them,
    unless it was answered: an assistant's words without a call, and then the user's.
    """
    latest: tuple[str, list[dict[str, object]]] | None = None
    for position in range(len(messages) - 1, max(-1, len(messages) - 1 - _LOOKED_BACK), -1):
        message = messages[position]
        if message.get("role") == "assistant" and not message.get("tool_calls") and latest:
            following = messages[position + 1]
            if following.get("role") not in ("assistant", "tool"):
                break
        if message.get("role") != "user":
            continue
        text = without_context(_text(message.get("content"))[-MAX_TEXT:]).strip()
        if text:
            found = (text, messages[position + 1 :])
            latest = latest or found
            if wishes_in(text):
                return found
    return latest or ("", [])


def _limited(thought: Thought, body: Mapping[str, object]) -> Thought:
    """The answer within the client's limit of tokens."""
    limits = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    limit = min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=0)
    if not limit or thought.calls or len(thought.text) <= limit * _BYTES_PER_TOKEN:
        return thought
    return msgspec.structs.replace(thought, text=thought.text[: limit * _BYTES_PER_TOKEN], finish="length")


def _tells_usage(options: object) -> bool:
    return isinstance(options, dict) and options.get("include_usage") is True


def _choice(choice: object) -> tuple[str, str]:
    """The mode, and the tool's name if one is named."""
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        return "named", name if isinstance(name, str) else ""
    return (choice if isinstance(choice, str) else "auto"), ""


def _wanted_schema(body: Mapping[str, object]) -> dict[str, object] | None:
    wanted = body.get("response_format")
    if not isinstance(wanted, dict):
        return None
    if wanted.get("type") == "json_object":
        return JSON_ANSWER
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def _shortened(text: str) -> str:
    if len(text) <= _QUOTED_RESULT:
        return text
    return f"{text[:_QUOTED_RESULT]}\n… ({len(text)} characters in all)"


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = (part.get("text") for part in _list(content) if isinstance(part, dict))
    return "\n".join(text for text in parts if isinstance(text, str))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
