"""The blocks that turns and replies are made of, whichever dialect they came from.

Every block can say where it stood in the client's JSON (`at`), how its dialect spelled it when there
is more than one way (`form`), and what its dialect said beyond our vocabulary (`extras`). `form` and
`extras` mean something to the source dialect alone; whoever edits a block drops both.
"""

from typing import Literal

import msgspec

from dragoman.hub.seal import Seal

Extras = dict[str, object]

CallKind = Literal["function", "custom", "tool_search", "local_shell", "shell", "apply_patch"]
MediaKind = Literal["image", "document", "audio", "video"]


class CacheMark(msgspec.Struct, frozen=True):
    """A prompt-cache breakpoint: everything up to and including the marked thing may be cached."""

    ttl: str = ""
    extras: Extras = {}


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a piece of text came from. `start` and `end` are offsets into the block's text, -1 if unknown."""

    url: str = ""
    title: str = ""
    quote: str = ""
    start: int = -1
    end: int = -1
    extras: Extras = {}


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """What all blocks share."""

    at: str = ""
    form: str = ""
    cache: CacheMark | None = None
    extras: Extras = {}


class Text(Block, frozen=True, kw_only=True):
    text: str
    citations: tuple[Citation, ...] = ()
    seal: Seal | None = None


class Refusal(Block, frozen=True, kw_only=True):
    """The model's own words for why it will not answer, where the dialect keeps them apart from text."""

    text: str


class Reasoning(Block, frozen=True, kw_only=True):
    """Thought in one or more parts. `raw` tells thought itself from a summary of it.

    `redacted`: there is no text, only the seal. A seal without text or redaction is a mere carrier.
    """

    parts: tuple[str, ...] = ()
    seal: Seal | None = None
    redacted: bool = False
    raw: bool = False

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts)


class Media(Block, frozen=True, kw_only=True):
    """An image, document or recording: exactly one of `data` (base64), `url`, `file_id`, `text` is set."""

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

    JSON text is kept as it came, so numbers, unicode and key order survive.
    """

    id: str
    name: str
    arguments: str = ""
    kind: CallKind = "function"
    namespace: str = ""
    seal: Seal | None = None


class ToolReference(Block, frozen=True, kw_only=True):
    """Inside a result: the named tool, deferred until now, is loaded."""

    name: str


class ToolDeclarations(Block, frozen=True, kw_only=True):
    """Tools declared in the middle of a conversation, from this point on."""

    tools: tuple["Tool", ...]


class ToolResult(Block, frozen=True, kw_only=True):
    """The client's answer to a call. `name` is set where the dialect names the tool again (Gemini)."""

    call_id: str
    content: tuple["AnyBlock", ...] = ()
    is_error: bool = False
    name: str = ""
    kind: CallKind = "function"


class HostedCall(Block, frozen=True, kw_only=True):
    """A tool that the vendor ran by itself (web search, code execution). `tool` is the family's name."""

    id: str
    tool: str
    arguments: str = ""


class HostedResult(Block, frozen=True, kw_only=True):
    """What a vendor's own tool gave back, as readable text; the structure stays in `extras`."""

    call_id: str
    tool: str
    text: str = ""
    is_error: bool = False


class Opaque(Block, frozen=True, kw_only=True):
    """A block that only its own dialect knows: its kind and its whole JSON value.

    `text` is what a target of another dialect gets instead; without it the block is a loss there, unless
    it is `is_covered`: the request says the same in its settings.
    """

    kind: str
    value: dict[str, object]
    text: str = ""
    is_covered: bool = False


AnyBlock = (
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
    """What a free-text tool's input must look like."""

    syntax: str
    definition: str
    extras: Extras = {}


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Roughly where the user is, as far as is known."""

    city: str = ""
    region: str = ""
    country: str = ""
    timezone: str = ""


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a hosted tool that looks at the web is told to keep to.

    `paths` has the names of the options in the client's JSON where they are called otherwise there.
    """

    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    location: Location | None = None
    #: How much of what is found the model gets to see: `low`, `medium` or `high`.
    context_size: str = ""
    #: How often it may be used in one reply.
    max_uses: int | None = None
    #: False: only what the vendor has stored already.
    live: bool | None = None
    paths: dict[str, str] = {}


class Tool(Block, frozen=True, kw_only=True):
    """Something the model may call.

    `function`: arguments by JSON schema. `custom`: free text, perhaps with a grammar. `tool_search`,
    `local_shell`, `shell`, `apply_patch`: OpenAI tools that the client runs. `typed`: an Anthropic tool
    that the client runs and whose schema the model was trained on. `hosted`: run by the vendor.
    `family` names typed and hosted tools across dialects and versions (`web_search`, `bash`, …).
    """

    name: str
    kind: ToolKind = "function"
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None
    namespace: str = ""
    grammar: ToolGrammar | None = None
    family: str = ""
    search: SearchOptions | None = None
    #: Declared, but shown to the model only after a tool search.
    deferred: bool = False
