"""`Dialect`: the interface of one API, and the values that its readers and writers receive.

Requests take the path `read_request` → hub `Request` → `write_request`. Replies take the path
`stream_reader` → hub events → `stream_writer`. A whole reply takes the same path: `explode` turns a body
into the frames of a stream with the same content, and `collect` turns frames into the body that a client
would accumulate. So streamed and whole replies are equal by construction.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyEvent
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target
from dragoman.wire.sse import Frame, Frames

if TYPE_CHECKING:
    from dragoman.dialects.forwarding import Forwarding
    from dragoman.dialects.http_api import HttpApi
    from dragoman.dialects.request_rules import RequestRule

Json = dict[str, object]


class UpstreamContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream reader knows of the upstream whose reply it reads."""

    #: The issuer of the seals in the reply.
    issuer: str
    model: str = ""
    #: Ids for calls that have none.
    ids: IdSource = msgspec.field(default_factory=IdSource)
    losses: Losses = msgspec.field(default_factory=Losses)
    #: The request that the upstream is answering, as the client sent it, if known.
    request: Request | None = None


class ClientContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream writer knows of the client that it writes for."""

    #: The dialect of the upstream: extras are written only if it is the writer's own.
    upstream: str = ""
    #: The client's request, if known: it decides which parts of the reply the client receives.
    request: Request | None = None
    #: The client's request body, for dialects that echo it.
    body: Json = {}
    #: The model's name in the client's request; it replaces the upstream's in the reply.
    model: str = ""
    ids: IdSource = msgspec.field(default_factory=IdSource)
    #: The reply's time in seconds since the epoch; 0: that of the upstream, if it has one.
    created: int = 0
    #: An estimate of the prompt's tokens, for dialects that report them first.
    input_estimate: int = 0
    losses: Losses = msgspec.field(default_factory=Losses)
    #: Members of the reply's object that the gateway decides, as JSON (Responses: id, store, …).
    reply_members: Mapping[str, bytes] = {}


class StreamReader(Protocol):
    """Bytes of a reply in, events out. The events keep to the grammar for any input; nothing is raised."""

    def feed(self, data: bytes) -> list[ReplyEvent]: ...

    def feed_frames(self, frames: Iterable[Frame]) -> list[ReplyEvent]:
        """The same for frames that need no decoding from bytes, such as those of `explode`."""
        ...

    def close(self) -> list[ReplyEvent]:
        """The upstream sends nothing more: finish or truncate the reply. May be called again."""
        ...


class StreamWriter(Protocol):
    """Grammatical events in, one block after another; frames of a legal stream out."""

    def write(self, event: ReplyEvent) -> Frames: ...


class Violation(NamedTuple):
    """Where a stream breaks its dialect's grammar: the frame's number (from 1) and what is wrong."""

    frame: int
    message: str


#: The families of tokenizers that token counts are estimated for (`tokens.text`).
TokenFamily = Literal["gpt", "open", "gemini", "claude-3", "claude"]


class CountFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How a dialect's endpoint that counts prompt tokens reads its body and writes its answer."""

    #: The tokenizers of the models that servers of this dialect usually run.
    family: TokenFamily
    #: The request inside the body of the endpoint, as `read_request` accepts it. May change the body.
    read_body: Callable[[Json], Json] = lambda body: body
    write_answer: Callable[[int], Json]


class Dialect(Protocol):
    """One API. Each dialect package has one instance, `DIALECT`."""

    name: str
    #: Tool arguments are JSON objects, not texts.
    object_arguments: bool
    #: A seal can stand on a tool call; otherwise it travels in a reasoning block before the call.
    seals_on_calls: bool
    #: The endpoint that counts prompt tokens.
    counting: CountFormat
    #: Replies repeat the client's request, so its body is needed until the reply begins.
    echoes_request: bool
    #: The API keeps responses that later requests refer to; the `responses` package serves it.
    keeps_state: bool
    #: Replies of an upstream report the prompt's tokens before the first block.
    reports_input_first: bool
    #: Replies to a client contain an estimate of the prompt's tokens if the upstream reports none.
    writes_input_estimate: bool
    #: How a stream is passed on without being rewritten.
    forwarding: "Forwarding"
    #: The API's paths, headers, pings, and model lists.
    http_api: "HttpApi"
    #: What the vendor refuses although `read_request` accepts it.
    request_rules: "tuple[RequestRule, ...]"

    def read_request(self, body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
        """Read a client's body, which is emptied. `model` and `stream` come from the URL (Gemini)."""
        ...

    def write_request(self, request: Request, target: Target, losses: Losses) -> Json:
        """A body for the upstream, from a request that fits the target."""
        ...

    def stream_reader(self, context: UpstreamContext) -> StreamReader: ...

    def stream_writer(self, context: ClientContext) -> StreamWriter: ...

    def explode(self, body: Json) -> Frames:
        """The frames of a stream that has the same content as this whole reply."""
        ...

    def collect(self, frames: Iterable[Frame]) -> Json:
        """The whole reply that a client would accumulate from these frames; an error body if it failed."""
        ...

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an upstream's HTTP error means. Header names are lower case."""
        ...

    def write_error(self, failure: Failure) -> Json: ...

    def error_status(self, failure: Failure) -> int:
        """The HTTP status that a client of this dialect expects."""
        ...

    def error_headers(self, failure: Failure) -> dict[str, str]: ...

    def check_stream(self, stream: bytes) -> list[Violation]:
        """Judge a stream against this dialect's grammar, independently of our reader and writer."""
        ...
