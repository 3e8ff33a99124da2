"""The rules of the embedded model: from an OpenAI Chat request to an answer.

The model carries out the commands of the last prompt, turn by turn, with the client's own tools. When all
are done it shows the results. The same request always gets the same answer.
"""

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.hub.ids import digest
from dragoman.upstream.embedded.commands import (
    MAX_TEXT,
    TOOL_VERBS,
    PromptCommand,
    find_commands,
    read_status,
    remove_context,
)
from dragoman.upstream.embedded.tools import (
    ChatFunction,
    build_call,
    build_example,
    guess_call,
    read_functions,
)

HELP = (
    "I am the model that is built into dragoman: no key, no network, no language understanding. "
    "Your agent reached me, so the way through the gateway works. "
    "Ask me to `read FILE`, `list DIRECTORY`, `run COMMAND` or `call TOOL {ARGUMENTS}` and I will use your "
    "agent's own tools; join commands with `and` or `then`. "
    "I can also `say TEXT`, `think`, `fail`, `fail with 429`, `fail midway` and `break off`."
)
REASONING = "The user asked me to think. So: do what was asked, in the order it was asked, then stop."
#: Schema of the answer to a request for JSON without a schema.
JSON_ANSWER: dict[str, object] = {"type": "object", "properties": {"answer": {"type": "string"}}}
#: Characters of a tool result that the answer quotes.
_MAX_QUOTE = 4000
#: Messages that are searched for the last prompt.
_MAX_SEARCH = 200
_BYTES_PER_TOKEN = 4

Message = Mapping[str, object]


class EmbeddedCall(msgspec.Struct, frozen=True):
    """A tool call of an answer. `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class EmbeddedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the model.

    A `status` other than 200 refuses the request. `cut` ends the stream early: "error" with an error event,
    "silence" without one.
    """

    id: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[EmbeddedCall, ...] = ()
    finish: str = "stop"
    status: int = 200
    cut: str = ""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    #: Whether a stream ends with a chunk of usage (`stream_options.include_usage`).
    reports_usage: bool = False


def answer_request(body: Mapping[str, object]) -> EmbeddedAnswer:
    """Answer the body of a Chat request. Fields of wrong types count as absent."""
    raw = msgspec.json.encode(body)
    answer = _limit_length(_answer(_PromptState(body), digest(raw)), body)
    size = len(answer.text) + len(answer.reasoning) + sum(len(call.arguments) for call in answer.calls)
    return msgspec.structs.replace(
        answer,
        finish="tool_calls" if answer.calls else answer.finish,
        prompt_tokens=max(1, len(raw) // _BYTES_PER_TOKEN),
        reply_tokens=max(1, size // _BYTES_PER_TOKEN),
        reports_usage=_object(body.get("stream_options")).get("include_usage") is True,
    )


class _PromptState:
    """The last prompt, its commands, and the messages after it."""

    def __init__(self, body: Mapping[str, object]) -> None:
        messages = [message for message in _list(body.get("messages")) if isinstance(message, dict)]
        self.prompt, self.later = _find_prompt(messages)
        turns = find_commands(self.prompt)
        self.commands = [command for turn in turns for command in turn]
        self.verbs = {command.verb: command for command in self.commands}
        tool_turns = [[command for command in turn if command.verb in TOOL_VERBS] for turn in turns]
        if body.get("parallel_tool_calls") is False:
            tool_turns = [[command] for turn in tool_turns for command in turn]
        self.turns = [turn for turn in tool_turns if turn]
        self.turns_done = sum(bool(message.get("tool_calls")) for message in self.later)
        self.schema = _read_output_schema(_object(body.get("response_format")))
        choice = body.get("tool_choice")
        self.is_required = choice == "required"
        self.required_name = _object(_object(choice).get("function")).get("name")
        self.functions = [] if choice == "none" else read_functions(body.get("tools"))


def _answer(state: _PromptState, seed: str) -> EmbeddedAnswer:
    answer = EmbeddedAnswer(id=f"chatcmpl-{seed}", reasoning=REASONING if "think" in state.verbs else "")
    if "fail" in state.verbs:
        command = state.verbs["fail"]
        if command.object.lower().startswith(("mid", "halfway", "in the middle", "later")):
            return msgspec.structs.replace(answer, text=HELP, cut="error")
        return msgspec.structs.replace(answer, status=read_status(command))
    if "break off" in state.verbs:
        return msgspec.structs.replace(answer, text=HELP, cut="silence")
    calls, excuse = _build_calls(state, seed)
    if calls:
        text = "" if state.turns_done or state.schema else "On it."
        return msgspec.structs.replace(answer, text=text, calls=calls)
    if state.schema is not None:
        text = msgspec.json.encode(build_example(state.schema)).decode()
        return msgspec.structs.replace(answer, text=text)
    return msgspec.structs.replace(answer, text=excuse or _build_text(state))


def _build_calls(state: _PromptState, seed: str) -> tuple[tuple[EmbeddedCall, ...], str]:
    """Build the calls of the next turn, or the excuse for a command that no tool can carry out."""
    pairs: list[tuple[str, str]] = []
    if state.turns_done < len(state.turns):
        for command in state.turns[state.turns_done]:
            call = build_call(command, state.functions)
            if call is None:
                return (), _build_no_tool_text(command, state.functions)
            pairs.append(call)
    elif not state.turns_done and not state.commands:
        guess = _build_required_call(state) or guess_call(state.prompt, state.functions)
        pairs = [guess] if guess else []
    return tuple(
        EmbeddedCall(f"call_{digest(seed, str(number))}", name, arguments)
        for number, (name, arguments) in enumerate(pairs)
    ), ""


def _build_required_call(state: _PromptState) -> tuple[str, str] | None:
    """Build the call that `tool_choice` demands."""
    for function in state.functions:
        if state.is_required or function.name == state.required_name:
            return function.name, function.build_arguments({})
    return None


def _build_no_tool_text(command: PromptCommand, functions: Sequence[ChatFunction]) -> str:
    names = ", ".join(function.name for function in functions) or "none"
    wanted = f"{command.verb} {command.object}".rstrip()
    return f"I would {wanted}, but no tool of yours does that (tools: {names})."


def _build_text(state: _PromptState) -> str:
    """Show the result of each call and the texts of `say`. With nothing to show, explain the model."""
    commands = [command for turn in state.turns for command in turn]
    results = [_read_text(message.get("content")) for message in state.later if message.get("role") == "tool"]
    parts = []
    for number, result in enumerate(results):
        has_command = number < len(commands)
        label = f"{commands[number].verb} {commands[number].object}".strip() if has_command else "result"
        parts.append(f"{label}:\n{_shorten(result)}")
    parts += [command.object for command in state.commands if command.verb == "say"]
    if not parts:
        parts = ["I have thought about it, and I am done." if "think" in state.verbs else HELP]
    return "\n\n".join(parts)


def _find_prompt(messages: list[dict[str, object]]) -> tuple[str, list[dict[str, object]]]:
    """Find the last prompt that is not answered yet, and the messages after it.

    Agents put reminders between results. A reminder is no prompt, so an earlier prompt with commands wins,
    unless it was answered: by an assistant message without a call that a user message follows.
    """
    latest: tuple[str, list[dict[str, object]]] | None = None
    for position in range(len(messages) - 1, max(-1, len(messages) - 1 - _MAX_SEARCH), -1):
        message = messages[position]
        if message.get("role") == "assistant" and not message.get("tool_calls") and latest:
            following = messages[position + 1]
            if following.get("role") not in ("assistant", "tool"):
                break
        if message.get("role") != "user":
            continue
        text = remove_context(_read_text(message.get("content"))[-MAX_TEXT:]).strip()
        if text:
            prompt = (text, messages[position + 1 :])
            latest = latest or prompt
            if find_commands(text):
                return prompt
    return latest or ("", [])


def _limit_length(answer: EmbeddedAnswer, body: Mapping[str, object]) -> EmbeddedAnswer:
    """Cut the text to the client's limit of tokens."""
    limits = [body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    limit = min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=0)
    length = limit * _BYTES_PER_TOKEN
    if not limit or answer.calls or len(answer.text) <= length:
        return answer
    return msgspec.structs.replace(answer, text=answer.text[:length], finish="length")


def _read_output_schema(wanted: Mapping[str, object]) -> dict[str, object] | None:
    """Read the schema of `response_format`, or None if the client wants plain text."""
    if wanted.get("type") == "json_object":
        return JSON_ANSWER
    schema = _object(wanted.get("json_schema")).get("schema")
    return schema if isinstance(schema, dict) else None


def _shorten(text: str) -> str:
    if len(text) <= _MAX_QUOTE:
        return text
    return f"{text[:_MAX_QUOTE]}\n… ({len(text)} characters in all)"


def _read_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = (part.get("text") for part in _list(content) if isinstance(part, dict))
    return "\n".join(text for text in parts if isinstance(text, str))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _object(value: object) -> Message:
    return value if isinstance(value, dict) else {}
