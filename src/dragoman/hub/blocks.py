"""The blocks that messages and replies consist of, in every dialect.

Every block has `at`, its path in the client's JSON; `form`, which of several spellings its dialect used; and
`extras`, the fields that have no place in the hub. `form` and `extras` mean something to the source dialect
alone: code that changes a block removes both.

`AnyBlock` and `ReplyBlock` are closed unions. Code that handles every kind of block matches on them and ends
in `assert_never`, so that a new kind is a type error there:

    match block:
        case Text() | Refusal():
            ...
        case _:
            assert_never(block)

Or it has a table of handlers by kind, whose keys a test compares with the union.
"""

from typing import Literal, TypeAlias

import msgspec

from dragoman.hub.seal import Seal

Extras = dict[str, object]

#: Extras whose name starts with this are private: the reader of a dialect leaves them for its own writer.
PRIVATE = "@"

CallKind = Literal["function", "custom", "tool_search", "local_shell", "shell", "apply_patch"]
MediaKind = Literal["image", "document", "audio", "video"]


class CacheMark(msgspec.Struct, frozen=True):
    """A prompt-cache breakpoint: the prompt up to and including the marked block may be cached."""

    ttl: str = ""
    extras: Extras = {}


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a piece of text. `start` and `end` are offsets into the block's text, -1 if unknown."""

    url: str = ""
    title: str = ""
    quote: str = ""
    start: int = -1
    end: int = -1
    extras: Extras = {}


class TokenLogprob(msgspec.Struct, frozen=True):
    """A token of the model and the logarithm of its probability.

    `data`: the bytes of the token, None if they are unknown. `top`: the most likely tokens at this place.
    """

    token: str
    logprob: float
    data: tuple[int, ...] | None = None
    top: tuple["TokenLogprob", ...] = ()


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that all blocks have."""

    at: str = ""
    form: str = ""
    cache: CacheMark | None = None
    extras: Extras = {}


class Text(Block, frozen=True, kw_only=True):
    """Plain text of the user, the model or the instructions."""

    text: str
    citations: tuple[Citation, ...] = ()
    seal: Seal | None = None
    #: In a reply whose client asked for them: the tokens of the text.
    logprobs: tuple[TokenLogprob, ...] = ()


class Refusal(Block, frozen=True, kw_only=True):
    """The model's explanation why it does not answer, in dialects that separate it from text."""

    text: str


class Reasoning(Block, frozen=True, kw_only=True):
    """The model's reasoning in one or more parts. `raw`: the reasoning itself, not a summary.

    `redacted`: there is no text, only the seal. A block with a seal, without text and not redacted, carries
    the seal of another block (`hub.seal`).
    """

    parts: tuple[str, ...] = ()
    seal: Seal | None = None
    redacted: bool = False
    raw: bool = False

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts)


class Media(Block, frozen=True, kw_only=True):
    """An image, document, audio or video: exactly one of `data` (base64), `url`, `file_id`, `text` is set."""

    kind: MediaKind
    media_type: str = ""
    data: str = ""
    url: str = ""
    file_id: str = ""
    text: str = ""
    title: str = ""
    detail: str = ""


class ToolCall(Block, frozen=True, kw_only=True):
    """A call of one of the client's tools. `arguments` is JSON text, or free text for kind `custom`.

    The JSON text is kept as it arrived, so numbers, escapes and the order of keys survive.
    """

    id: str
    name: str
    arguments: str = ""
    kind: CallKind = "function"
    namespace: str = ""
    seal: Seal | None = None


class ToolReference(Block, frozen=True, kw_only=True):
    """Inside a result: the named tool was deferred and is loaded now."""

    name: str


class ToolDeclarations(Block, frozen=True, kw_only=True):
    """Tools declared inside a conversation; they are available from there on."""

    tools: tuple["Tool", ...]


class ToolResult(Block, frozen=True, kw_only=True):
    """The client's result of a call. `name` is set in dialects whose results name the tool (Gemini)."""

    call_id: str
    content: tuple["AnyBlock", ...] = ()
    is_error: bool = False
    name: str = ""
    kind: CallKind = "function"


class HostedCall(Block, frozen=True, kw_only=True):
    """A call of a tool that the vendor runs (web search, code execution). `tool` is its common name."""

    id: str
    tool: str
    arguments: str = ""


class HostedResult(Block, frozen=True, kw_only=True):
    """The result of a tool that the vendor runs, as readable text; its structure is in `extras`."""

    call_id: str
    tool: str
    text: str = ""
    is_error: bool = False


class Opaque(Block, frozen=True, kw_only=True):
    """A block that only its own dialect knows: its kind and its whole JSON value.

    A target of another dialect gets `text` instead. Without `text` the block is a loss there, unless
    `is_covered`: the settings of the request have the same meaning.
    """

    kind: str
    value: dict[str, object]
    text: str = ""
    is_covered: bool = False


#: All kinds of block.
AnyBlock: TypeAlias = (
    Text
    | Refusal
    | Reasoning
    | Media
    | ToolCall
    | ToolReference
    | ToolDeclarations
    | ToolResult
    | HostedCall
    | HostedResult
    | Opaque
)

#: The kinds of block that a reply can hold.
ReplyBlock: TypeAlias = Text | Refusal | Reasoning | Media | ToolCall | HostedCall | HostedResult | Opaque

ToolKind = Literal[
    "function",
    "custom",
    "tool_search",
    "local_shell",
    "shell",
    "apply_patch",
    "typed",
    "hosted",
]


class ToolGrammar(msgspec.Struct, frozen=True, kw_only=True):
    """The grammar that the input of a free-text tool must match."""

    syntax: str
    definition: str
    extras: Extras = {}


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """The approximate location of the user, as far as it is known."""

    city: str = ""
    region: str = ""
    country: str = ""
    timezone: str = ""


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a hosted tool that searches the web.

    `paths` has the path of each option in the client's JSON that has another name there.
    """

    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    location: Location | None = None
    #: How much of the results the model sees: `low`, `medium` or `high`.
    context_size: str = ""
    #: The number of searches that one reply may make.
    max_uses: int | None = None
    #: False: only pages that the vendor has stored already.
    live: bool | None = None
    paths: dict[str, str] = {}


class Tool(Block, frozen=True, kw_only=True):
    """A tool that the model may call.

    `function`: arguments by JSON Schema. `custom`: free text, optionally with a grammar. `tool_search`,
    `local_shell`, `shell`, `apply_patch`: OpenAI tools that the client runs. `typed`: an Anthropic tool
    that the client runs and whose schema the model was trained on. `hosted`: run by the vendor.
    `common_name` names typed and hosted tools across dialects and versions (`web_search`, `bash`, …).
    """

    name: str
    kind: ToolKind = "function"
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None
    namespace: str = ""
    grammar: ToolGrammar | None = None
    common_name: str = ""
    search: SearchOptions | None = None
    #: The model sees the tool only after a tool search.
    deferred: bool = False
