"""The values that the readers and writers of every dialect receive, and their interfaces."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from dragoman.hub.events import DeltaRun, ReadEvents, ReplyEvent
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.wire.sse import Frame, FrameRun, Frames

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
    #: The client gets the upstream's own events, and judges contradictions between them itself.
    forwards: bool = False


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
    """Bytes of a reply in, events out. The events keep to the grammar for any input; nothing is raised.

    A reader may also have `text_template`, `keeps_texts` and `count_texts`, for the express path
    (`pipeline.express`).
    """

    def feed(self, data: bytes) -> list[ReplyEvent]: ...

    def feed_runs(self, data: bytes) -> ReadEvents:
        """The events of `feed`. A run of similar deltas may be one `DeltaRun`."""
        ...

    def feed_frames(self, frames: Iterable[Frame]) -> list[ReplyEvent]:
        """The events of frames, such as those of `explode`, which need no decoding from bytes."""
        ...

    @property
    def has_answer(self) -> bool:
        """Something other than reasoning has come, so that no ending can be one without content."""
        ...

    def close(self) -> list[ReplyEvent]:
        """The upstream sends nothing more: finish or truncate the reply. May be called again."""
        ...


class StreamWriter(Protocol):
    """Grammatical events in, one block after another; frames of a legal stream out.

    A writer may also have `count_text` and `counts_only_ascii`, for the express path (`pipeline.express`).
    """

    def write(self, event: ReplyEvent) -> Frames: ...

    def write_run(self, run: DeltaRun) -> Sequence[Frame | FrameRun]:
        """The frames of all deltas of a run, as so many calls of `write` would give them."""
        ...


class StreamWriterClass(Protocol):
    """The class of a dialect's stream writers."""

    #: Bytes that keep a stream's connection alive; empty: clients of the API accept nothing but data.
    ping: bytes

    def __call__(self, context: ClientContext) -> StreamWriter: ...


class Violation(NamedTuple):
    """Where a stream breaks its dialect's grammar: the frame's number (from 1) and what is wrong."""

    frame: int
    message: str


#: The kinds of tokenizers that token counts are estimated for (`tokens.text`).
Tokenizer = Literal["gpt", "open", "gemini", "claude-3", "claude"]


class HistoryFields(msgspec.Struct, frozen=True, kw_only=True):
    """Which members of a request's body hold the conversation, and which do not affect its translation."""

    #: The array of messages, items or contents.
    conversation: str
    #: Members that may differ between requests with the same translated history: system prompts, metadata.
    independent: frozenset[str] = frozenset()
    #: Members with system prompts, and with tools. Beside these and the conversation there are only settings.
    system: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset({"tools"})

    @property
    def beginning(self) -> bytes:
        """How the conversation begins in a body without white space. A text may contain it too."""
        return b'"%b":[' % self.conversation.encode()


class CountFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How a dialect's endpoint that counts prompt tokens reads its body and writes its answer."""

    #: The tokenizers of the models that servers of this dialect usually run.
    tokenizer: Tokenizer
    #: The request inside the body of the endpoint, as `read_request` accepts it. May change the body.
    read_body: Callable[[Json], Json] = lambda body: body
    write_answer: Callable[[int], Json]
