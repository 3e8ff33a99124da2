"""The prompt tokens of a request: its text, counted as one, and what the chat template of the model adds.

Tools are counted in the form in which the model sees them: as JSON, or as the types that OpenAI makes of
their schemas.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import add
from typing import assert_never

import msgspec

from dragoman.dialects.interfaces import Tokenizer
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    HostedResult,
    Media,
    MediaKind,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, list_declared_tools
from dragoman.schema import properties_of, required_of
from dragoman.tokens.text import (
    NO_PATTERNS,
    SEPARATOR,
    CountMemo,
    add_costs,
    count_patterns,
    estimate_text_tokens,
)
from dragoman.tokens.tokenizers import OVERHEADS, Overhead, ToolsForm
from dragoman.wire.fields import decode, encode

MAX_BODY = 64 * 1024 * 1024

#: Base64 characters of an ordinary page, and of a minute of compressed audio.
PAGE = 80_000
MINUTE = 1_300_000
#: Bytes of an unknown block that count at most: its JSON is rarely text that the model sees.
MAX_OPAQUE = 2_000

#: The tokens in which a vendor describes a tool that its models know without a schema.
KNOWN_TOOL = 300

#: The length of the samples for `estimate_from_samples`, and the distance of their beginnings.
SAMPLE = 32
DISTANCE = 512
#: Characters. A prompt of at most this length is counted whole, without samples.
SMALL_PROMPT = 4_096

#: The samples of so many parts of prompts are known.
_samples = CountMemo(1_000)

SYSTEM_ROLES = ("system", "developer")

#: Schemas may nest without end; deeper parts count as `any`.
MAX_DEPTH = 12

_TYPE_NAMES = {"integer": "number", "null": "null", "boolean": "boolean"}


def read_count_request(dialect: str, body: bytes, model: str = "") -> Request:
    """The request in the body of a counting endpoint; `model`: the one in the URL (Gemini)."""
    value = decode(body, limit=MAX_BODY)
    if not isinstance(value, dict):
        raise ClientProtocolError("expected a JSON object as the request body")
    language = dialect_named(dialect)
    return language.read_request(language.counting.read_body(value), Losses(), model=model)


def estimate_tokens(request: Request, tokenizer: Tokenizer) -> int:
    """The prompt tokens of the request for a model with this tokenizer, estimated; at least one."""
    overhead = OVERHEADS[tokenizer]
    parts = _PromptCollector()
    parts.add_front(request, overhead.tools_as)
    parts.add_messages(request.messages)
    text = "\n".join(parts.texts)
    return max(1, round(estimate_text_tokens(text, tokenizer) + parts.count_parts().add_overhead(overhead)))


def estimate_from_samples(request: Request, tokenizer: Tokenizer) -> int:
    """A fast estimate from samples, for numbers that the upstream's usage replaces later."""
    return sample_request(request, OVERHEADS[tokenizer].tools_as).estimate(tokenizer)


def sample_request(request: Request, tools_as: ToolsForm) -> "PromptSample":
    """The sample of a whole request. A short prompt is its own sample."""
    parts = sample_parts(request, tools_as)
    if parts is not None:
        return parts[0] + parts[1]
    collected = (_collect_front(request, tools_as), _collect_messages(request.messages))
    texts = [text for part in collected for text in part.texts]
    counts = tuple(count_patterns("\n".join(texts)))
    return PromptSample(counts, 1, 1, collected[0].count_parts() + collected[1].count_parts())


def sample_parts(request: Request, tools_as: ToolsForm) -> "tuple[PromptSample, PromptSample] | None":
    """The sample of everything before the conversation, and that of the conversation; None if both are short.

    System prompts are sampled apart from the conversation, so that its samples do not depend on them.
    """
    count = count_leading_messages(request.messages)
    parts = (
        _collect_front(request, tools_as),
        _collect_messages(request.messages[:count]),
        _collect_messages(request.messages[count:]),
    )
    if sum(part.length for part in parts) <= SMALL_PROMPT:
        return None
    front, leading, conversation = (part.sample() for part in parts)
    return front + leading, conversation


def count_leading_messages(messages: Sequence[Message]) -> int:
    """The number of messages before the conversation: its system prompts."""
    return next(
        (at for at, message in enumerate(messages) if message.role not in SYSTEM_ROLES), len(messages)
    )


def sample_front(request: Request, tools_as: ToolsForm) -> "PromptSample":
    """The sample of everything but the messages."""
    return _collect_front(request, tools_as).sample()


def sample_messages(messages: Iterable[Message], offset: int = 0) -> "PromptSample":
    """The sample of some messages. `offset`: the length of the messages before them."""
    return _collect_messages(messages).sample(offset)


class PromptParts(msgspec.Struct, frozen=True):
    """Counts of the messages, calls, results, tools and media of a prompt.

    The chat template adds tokens for each.
    """

    requests: int = 0
    messages: int = 0
    systems: int = 0
    calls: int = 0
    results: int = 0
    tools: int = 0
    known_tools: int = 0
    is_forced: bool = False
    media: tuple[tuple[MediaKind, float], ...] = ()

    def __add__(self, other: "PromptParts") -> "PromptParts":
        return PromptParts(
            self.requests + other.requests,
            self.messages + other.messages,
            self.systems + other.systems,
            self.calls + other.calls,
            self.results + other.results,
            self.tools + other.tools,
            self.known_tools + other.known_tools,
            self.is_forced or other.is_forced,
            self.media + other.media,
        )

    def add_overhead(self, overhead: Overhead) -> float:
        """The tokens of everything that is no text."""
        tools = overhead.tools[self.is_forced] + self.tools * overhead.tool if self.tools else 0
        return (
            self.requests * overhead.request
            + self.systems * overhead.system
            + self.messages * overhead.message
            + self.calls * overhead.call
            + self.results * overhead.result
            + tools
            + self.known_tools * KNOWN_TOOL
            + sum(overhead.media[kind] * amount for kind, amount in self.media)
        )


class PromptSample(msgspec.Struct, frozen=True):
    """Samples of a part of a prompt, counted once for all tokenizers that see tools in the same form.

    The samples of the parts of a prompt are added up with `+`, in their order.
    """

    #: How often each pattern occurs in the samples.
    counts: tuple[int, ...] = NO_PATTERNS
    #: The characters of the samples, and of all texts.
    sampled: int = 0
    length: int = 0
    parts: PromptParts = PromptParts()

    def __add__(self, other: "PromptSample") -> "PromptSample":
        return PromptSample(
            tuple(map(add, self.counts, other.counts)),
            self.sampled + other.sampled,
            self.length + other.length,
            self.parts + other.parts,
        )

    def estimate(self, tokenizer: Tokenizer) -> int:
        """The prompt tokens for a model with this tokenizer; at least one."""
        tokens = add_costs(self.counts, tokenizer) * self.length / max(1, self.sampled)
        return max(1, round(tokens + self.parts.add_overhead(OVERHEADS[tokenizer])))


def _collect_front(request: Request, tools_as: ToolsForm) -> "_PromptCollector":
    parts = _PromptCollector()
    parts.add_front(request, tools_as)
    return parts


def _collect_messages(messages: Iterable[Message]) -> "_PromptCollector":
    parts = _PromptCollector()
    parts.add_messages(messages)
    return parts


class _PromptCollector:
    """Collects the texts and the counts (`PromptParts`) of a part of a prompt."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._requests = self._messages = self._systems = self._calls = self._results = 0
        self._tools = self._known_tools = 0
        self._is_forced = False
        self._media: list[tuple[MediaKind, float]] = []

    @property
    def length(self) -> int:
        """The characters of all texts, each with a line end."""
        return sum(map(len, self.texts)) + len(self.texts)

    def add_front(self, request: Request, tools_as: ToolsForm) -> None:
        """Add everything but the messages."""
        self._requests += 1
        choice = request.tool_choice
        self._is_forced = choice is not None and choice.mode in ("required", "named")
        self._add_tools(request, tools_as)
        if request.output is not None and request.output.schema is not None:
            self.texts.append(encode(request.output.schema).decode())

    def add_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            is_system = message.role in SYSTEM_ROLES
            self._systems += is_system
            self._messages += not is_system
            self._add(message.blocks)

    def count_parts(self) -> PromptParts:
        return PromptParts(
            self._requests,
            self._messages,
            self._systems,
            self._calls,
            self._results,
            self._tools,
            self._known_tools,
            self._is_forced,
            tuple(self._media),
        )

    def sample(self, offset: int = 0) -> PromptSample:
        """Take samples of the texts. `offset`: the characters of the prompt before these texts.

        A sample begins at each multiple of `DISTANCE`, and ends with its text at the latest.
        """
        pieces: list[str] = []
        end = offset
        for text in self.texts:
            pieces += [text[at : at + SAMPLE] for at in range(-end % DISTANCE, len(text), DISTANCE)]
            end += len(text) + 1
        counts = _samples.count(SEPARATOR.join(pieces)) if pieces else NO_PATTERNS
        return PromptSample(counts, sum(map(len, pieces)), end - offset, self.count_parts())

    def _add_tools(self, request: Request, tools_as: ToolsForm) -> None:
        tools = list_declared_tools(request)
        if any(tool.deferred for tool in tools):
            loaded = _find_loaded_tools(request)
            tools = tuple(tool for tool in tools if not tool.deferred or tool.name in loaded)
        if not tools:
            return
        self._tools = len(tools)
        if tools_as == "types":
            self.texts += ("\n".join(_write_types(tool)) for tool in tools)
        else:
            self.texts.append(_write_json(tools))
        for tool in tools:
            if tool.kind in ("typed", "hosted"):
                self._known_tools += 1
            if tool.grammar is not None:
                self.texts.append(tool.grammar.definition)

    def _add(self, blocks: Iterable[AnyBlock]) -> None:
        for block in blocks:
            match block:
                case Text() | Refusal() | Reasoning():
                    self.texts.append(block.text)
                case ToolCall():
                    self._calls += 1
                    self.texts += (block.name, block.arguments)
                case ToolResult():
                    self._results += 1
                    self._add(block.content)
                case HostedCall():
                    self._calls += 1
                    self.texts.append(block.arguments)
                case HostedResult():
                    self._results += 1
                    self.texts.append(block.text)
                case Media():
                    self._add_media(block)
                case ToolReference():
                    self.texts.append(block.name)
                case Opaque():
                    self.texts.append(
                        block.text or encode(block.value)[:MAX_OPAQUE].decode("utf-8", "ignore")
                    )
                case ToolDeclarations():
                    pass  # `_add_tools` counts them
                case _:
                    assert_never(block)

    def _add_media(self, media: Media) -> None:
        self.texts += (media.text, media.title)
        if media.text:
            return
        if media.kind == "image":
            self._media.append((media.kind, 1 / 9 if media.detail == "low" else 1.0))
        else:
            size = PAGE if media.kind == "document" else MINUTE
            self._media.append((media.kind, max(1.0, len(media.data) / size)))


def _find_loaded_tools(request: Request) -> set[str]:
    """The names of deferred tools that the conversation has loaded."""
    found = set()
    for message in request.messages:
        for block in message.blocks:
            inner = block.content if isinstance(block, ToolResult) else (block,)
            found |= {reference.name for reference in inner if isinstance(reference, ToolReference)}
    return found


def _write_json(tools: Iterable[Tool]) -> str:
    """All tools as one JSON text. One text is faster than dozens: agents send dozens of tools per request."""
    fields = [
        {"name": tool.name, "description": tool.description or "", "input_schema": tool.schema or {}}
        for tool in tools
    ]
    return encode(fields).decode()


def _write_types(tool: Tool) -> Iterator[str]:
    yield f"// {tool.description or ''}"
    if not (tool.schema or {}).get("properties"):
        yield f"type {tool.name} = () => any;\n"
        return
    yield f"type {tool.name} = (_: " + _write_type(tool.schema, 0) + ") => any;\n"


def _write_type(schema: object, depth: int) -> str:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return "any"
    choices = schema.get("enum")
    if isinstance(choices, list):
        return " | ".join(encode(choice).decode() for choice in choices)
    for keyword in ("anyOf", "oneOf"):
        choices = schema.get(keyword)
        if isinstance(choices, list):
            return " | ".join(_write_type(choice, depth + 1) for choice in choices)
    if isinstance(schema.get("properties"), dict):
        return "{\n" + "\n".join(_write_members(schema, depth)) + "\n}"
    kind = schema.get("type")
    if kind == "array":
        return f"{_write_type(schema.get('items'), depth + 1)}[]"
    return _TYPE_NAMES.get(kind, kind) if isinstance(kind, str) else "any"


def _write_members(schema: dict[str, object], depth: int) -> Iterator[str]:
    required = required_of(schema)
    for name, inner in properties_of(schema).items():
        description = inner.get("description") if isinstance(inner, dict) else None
        if isinstance(description, str):
            yield f"// {description}"
        yield f"{name}{'' if name in required else '?'}: {_write_type(inner, depth + 1)},"
