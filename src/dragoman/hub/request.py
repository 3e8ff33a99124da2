"""A client's request as a frozen value: the conversation, the tools and the settings.

None (or an empty string or tuple) means that the client did not set the field. `paths` has the path of each
field that has another name in the client's JSON, so that losses and errors can name it.
"""

from collections.abc import Iterable, Set
from itertools import chain
from operator import attrgetter
from typing import Literal

import msgspec

from dragoman.hub.blocks import (
    AnyBlock,
    CacheMark,
    Extras,
    Media,
    Text,
    Tool,
    ToolDeclarations,
    ToolResult,
)

Role = Literal["system", "developer", "user", "assistant", "tool"]

#: From least to most; `none` means "do not reason".
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_get_blocks = attrgetter("blocks")


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message or item. Results are in `tool` or `user` messages, as the client sent them."""

    role: Role
    blocks: tuple[AnyBlock, ...] = ()
    at: str = ""
    form: str = ""
    extras: Extras = {}


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`named` forces one tool; `allowed` restricts to a list, with `allowed_mode` auto or required.

    `kind` is the kind of the named tool, in dialects that name it.
    """

    mode: Literal["auto", "required", "none", "named", "allowed"]
    name: str = ""
    kind: str = "function"
    namespace: str = ""
    allowed: tuple[str, ...] = ()
    allowed_mode: Literal["auto", "required"] = "auto"
    form: str = ""
    extras: Extras = {}


class ReasoningSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much the model should reason, in the terms that the client used; several may be set.

    `mode`: `off`, `on`, or `adaptive` (the model decides). `show`: the client wants to see the reasoning.
    """

    mode: Literal["off", "on", "adaptive"] | None = None
    effort: Effort | None = None
    budget: int | None = None
    show: bool | None = None
    #: The value of `show` in the source dialect: a summary style or a display mode.
    style: str = ""
    extras: Extras = {}


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The format that the answer must have."""

    kind: Literal["text", "json_object", "json_schema"]
    schema: dict[str, object] | None = None
    name: str = ""
    description: str = ""
    strict: bool | None = None
    form: str = ""
    extras: Extras = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A whole request. `dialect` is the client's; only its writer may use `form` and `extras`."""

    dialect: str
    model: str
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    stream: bool = False
    #: Chat only: the client wants a usage chunk at the end of the stream.
    include_usage: bool = False
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    #: The number of alternative answers (Chat `n`, Gemini `candidateCount`).
    candidates: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, object] | None = None
    reasoning: ReasoningSettings | None = None
    output: OutputFormat | None = None
    verbosity: str = ""
    service_tier: str = ""
    #: Names requests that share a prompt prefix.
    cache_key: str = ""
    #: Caching for the whole request (Anthropic's top-level `cache_control`).
    cache: CacheMark | None = None
    #: The id of the end user.
    user: str = ""
    metadata: dict[str, object] | None = None
    #: Responses only: what the reply should include, and the stored state that it refers to.
    include: tuple[str, ...] = ()
    store: bool | None = None
    previous_response_id: str = ""
    paths: dict[str, str] = {}
    form: str = ""
    extras: Extras = {}

    def path_of(self, field: str) -> str:
        """The path of a field in the client's JSON."""
        return self.paths.get(field, field)


def list_blocks(messages: Iterable[Message]) -> list[AnyBlock]:
    """The blocks of all messages in order, without those inside results."""
    return list(chain.from_iterable(map(_get_blocks, messages)))


def find_block_kinds(messages: Iterable[Message]) -> set[type]:
    """The kinds of blocks in these messages, including those inside results."""
    blocks = list_blocks(messages)
    kinds: set[type] = set(map(type, blocks))
    if ToolResult in kinds:
        for block in blocks:
            if type(block) is ToolResult:
                kinds.update(map(type, block.content))
    return kinds


def has_image(message: Message) -> bool:
    """Whether a message contains an image, also inside a result."""
    return any(map(_is_image, message.blocks))


def _is_image(block: AnyBlock) -> bool:
    if isinstance(block, ToolResult):
        return any(map(_is_image, block.content))
    return isinstance(block, Media) and block.kind == "image"


def list_declared_tools(request: Request, kinds: Set[type] | None = None) -> tuple[Tool, ...]:
    """Every tool that the client declares, before and inside the conversation, in order.

    `kinds`: what `find_block_kinds` returns, if it is known.
    """
    if ToolDeclarations not in (find_block_kinds(request.messages) if kinds is None else kinds):
        return request.tools
    tools = list(request.tools)
    for block in list_blocks(request.messages):
        for inner in block.content if isinstance(block, ToolResult) else (block,):
            if isinstance(inner, ToolDeclarations):
                tools += inner.tools
    return tuple(tools)


def find_first_text(request: Request) -> str:
    """The user's first text: the same in every request of a conversation, and in few others."""
    message = next((message for message in request.messages if message.role == "user"), None)
    texts = (block.text for block in message.blocks if isinstance(block, Text)) if message else ()
    return "\n".join(texts)
