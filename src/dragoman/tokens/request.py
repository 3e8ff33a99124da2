"""The prompt tokens of a request: its text, counted as one, and what the family of models adds.

Tools are counted in the form in which the model sees them: as JSON, or as the types that OpenAI makes of
their schemas.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from dragoman.dialects.interfaces import TokenFamily
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    HostedResult,
    Media,
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
from dragoman.hub.request import Request, list_declared_tools
from dragoman.schema import properties_of, required_of
from dragoman.tokens.families import OVERHEADS, Overhead
from dragoman.tokens.text import estimate_text_tokens
from dragoman.wire.fields import decode, encode

MAX_BODY = 64 * 1024 * 1024

#: Base64 characters of an ordinary page, and of a minute of compressed audio.
PAGE = 80_000
MINUTE = 1_300_000
#: Bytes of an unknown block that count at most: its JSON is rarely text that the model sees.
MAX_OPAQUE = 2_000

#: The tokens in which a vendor describes a tool that its models know without a schema.
KNOWN_TOOL = 300

#: The number and the length of the samples for `estimate_from_samples`.
SAMPLES = 32
SAMPLE = 64

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


def estimate_tokens(request: Request, family: TokenFamily) -> int:
    """The prompt tokens of the request for a model of this family, estimated; at least one."""
    text, extra = _collect(request, family)
    return max(1, round(estimate_text_tokens(text, family) + extra))


def estimate_from_samples(request: Request, family: TokenFamily) -> int:
    """A fast estimate from samples, for numbers that the upstream's usage replaces later."""
    text, extra = _collect(request, family)
    distance = len(text) // SAMPLES
    if distance <= SAMPLE:
        return max(1, round(estimate_text_tokens(text, family) + extra))
    starts = range(0, distance * SAMPLES, distance)
    sample = "".join([text[start : start + SAMPLE] for start in starts])
    return max(1, round(estimate_text_tokens(sample, family) * len(text) / len(sample) + extra))


def _collect(request: Request, family: TokenFamily) -> tuple[str, float]:
    """All text of a request, and the tokens of everything else."""
    parts = _PromptParts(OVERHEADS[family])
    parts.add_tools(request)
    for message in request.messages:
        is_system = message.role in ("system", "developer")
        parts.extra += parts.overhead.system if is_system else parts.overhead.message
        parts.add(message.blocks)
    if request.output is not None and request.output.schema is not None:
        parts.texts.append(encode(request.output.schema).decode())
    return "\n".join(parts.texts), parts.extra


class _PromptParts:
    """The texts of a request, and the tokens of everything that is no text."""

    def __init__(self, overhead: Overhead) -> None:
        self.overhead = overhead
        self.texts: list[str] = []
        self.extra: float = overhead.request

    def add_tools(self, request: Request) -> None:
        tools = list_declared_tools(request)
        if any(tool.deferred for tool in tools):
            loaded = _find_loaded_tools(request)
            tools = tuple(tool for tool in tools if not tool.deferred or tool.name in loaded)
        if not tools:
            return
        is_forced = request.tool_choice is not None and request.tool_choice.mode in ("required", "named")
        self.extra += self.overhead.tools[is_forced] + len(tools) * self.overhead.tool
        if self.overhead.tools_as == "types":
            self.texts += ("\n".join(_write_types(tool)) for tool in tools)
        else:
            self.texts.append(_write_json(tools))
        for tool in tools:
            if tool.kind in ("typed", "hosted"):
                self.extra += KNOWN_TOOL
            if tool.grammar is not None:
                self.texts.append(tool.grammar.definition)

    def add(self, blocks: Iterable[AnyBlock]) -> None:
        for block in blocks:
            match block:
                case Text() | Refusal() | Reasoning():
                    self.texts.append(block.text)
                case ToolCall():
                    self.extra += self.overhead.call
                    self.texts += (block.name, block.arguments)
                case ToolResult():
                    self.extra += self.overhead.result
                    self.add(block.content)
                case HostedCall():
                    self.extra += self.overhead.call
                    self.texts.append(block.arguments)
                case HostedResult():
                    self.extra += self.overhead.result
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
                    pass  # `add_tools` counts them
                case _:
                    assert_never(block)

    def _add_media(self, media: Media) -> None:
        self.texts += (media.text, media.title)
        if media.text:
            return
        each = self.overhead.media[media.kind]
        if media.kind == "image":
            self.extra += each / 9 if media.detail == "low" else each
        else:
            size = PAGE if media.kind == "document" else MINUTE
            self.extra += each * max(1.0, len(media.data) / size)


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
