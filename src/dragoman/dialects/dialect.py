"""`Dialect`: one API, assembled from the modules of its package.

Requests take the path `read_request` → hub `Request` → `write_request`. Replies take the path
`stream_reader` → hub events → `stream_writer`. A whole reply takes the same path: `explode` turns a body
into the frames of a stream with the same content, and `collect` turns frames into the body that a client
would accumulate. So streamed and whole replies are equal by construction.

The protocols below list the functions that a module of a dialect's package must have. Each has the name of
its module: `explode` of every dialect is in its `reply.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.http_api import HttpApi
from dragoman.dialects.interfaces import (
    CountFormat,
    HistoryFields,
    Json,
    StreamReader,
    StreamWriterClass,
    UpstreamContext,
    Violation,
)
from dragoman.dialects.request_rules import RequestRule
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.hub.stage import CallOrder
from dragoman.providers.profile import TargetFacts
from dragoman.wire.sse import Frame, Frames


class RequestReaderModule(Protocol):
    """The functions of `request_reader.py` in each dialect's package."""

    def read_request(self, body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
        """Read a client's body, which is emptied. `model` and `stream` come from the URL (Gemini)."""
        ...


class RequestWriterModule(Protocol):
    """The functions of `request_writer.py` in each dialect's package."""

    def write_request(self, request: Request, target: TargetFacts, losses: Losses) -> Json:
        """A body for the upstream, from a request that fits the target."""
        ...

    def write_messages(
        self, request: Request, messages: Sequence[Message], target: TargetFacts, losses: Losses
    ) -> list[Json]:
        """The items of the conversation for some messages of the request, those behind the system prompt.

        They do not depend on the other messages. `HistoryFields.conversation` names their member.
        """
        ...


class ReplyModule(Protocol):
    """The functions of `reply.py` in each dialect's package."""

    def explode(self, body: Json) -> Frames:
        """The frames of a stream that has the same content as this whole reply."""
        ...

    def collect(self, frames: Iterable[Frame]) -> Json:
        """The whole reply that a client would accumulate from these frames; an error body if it failed."""
        ...


class ErrorsModule(Protocol):
    """The functions of `errors.py` in each dialect's package."""

    def write_error(self, failure: Failure) -> Json: ...

    def error_status(self, failure: Failure) -> int:
        """The HTTP status that a client of this dialect expects."""
        ...

    def error_headers(self, failure: Failure) -> dict[str, str]: ...


class StreamCheckModule(Protocol):
    """The functions of `stream_check.py` in each dialect's package."""

    def check_stream(self, stream: bytes) -> list[Violation]:
        """Judge a stream against this dialect's grammar, independently of our reader and writer."""
        ...


class Dialect:
    """One API. Each dialect package has one instance, `DIALECT`.

    `object_arguments`: tool arguments are JSON objects, not texts.
    `call_order`: whether text may come while a call is open (`hub.stage`).
    `seals_on_calls`: a seal can stand on a tool call; otherwise it travels in a reasoning block before it.
    `echoes_request`: replies repeat the client's request, so its body is needed until the reply begins.
    `keeps_state`: the API keeps responses that later requests refer to; `responses` serves it.
    `reports_input_first`: replies of an upstream report the prompt's tokens before the first block.
    `writes_input_estimate`: replies to a client contain an estimate of the prompt's tokens if the upstream
    reports none.
    """

    def __init__(
        self,
        name: str,
        *,
        request_reader: RequestReaderModule,
        request_writer: RequestWriterModule,
        stream_reader: Callable[[UpstreamContext], StreamReader],
        stream_writer: StreamWriterClass,
        reply: ReplyModule,
        errors: ErrorsModule,
        stream_check: StreamCheckModule,
        counting: CountFormat,
        forwarding: Forwarding,
        http_api: HttpApi,
        history: HistoryFields,
        request_rules: tuple[RequestRule, ...] = (),
        read_error: Callable[[int, Mapping[str, str], bytes], Failure] = read_error,
        object_arguments: bool = False,
        call_order: CallOrder = "in_turn",
        seals_on_calls: bool = False,
        echoes_request: bool = False,
        keeps_state: bool = False,
        reports_input_first: bool = False,
        writes_input_estimate: bool = False,
    ) -> None:
        self.name = name
        self.read_request = request_reader.read_request
        self.write_request = request_writer.write_request
        self.write_messages = request_writer.write_messages
        #: The members of a request's body, by what translated history depends on.
        self.history = history
        self.stream_reader = stream_reader
        self.stream_writer = stream_writer
        self.explode = reply.explode
        self.collect = reply.collect
        #: What an upstream's HTTP error means: of status, headers (names in lower case) and body.
        self.read_error = read_error
        self.write_error = errors.write_error
        self.error_status = errors.error_status
        self.error_headers = errors.error_headers
        self.check_stream = stream_check.check_stream
        #: The endpoint that counts prompt tokens.
        self.counting = counting
        #: How a stream is passed on without being rewritten.
        self.forwarding = forwarding
        #: The API's paths, headers and model lists.
        self.http_api = http_api
        #: What the vendor refuses although `read_request` accepts it.
        self.request_rules = request_rules
        self.object_arguments = object_arguments
        self.call_order = call_order
        self.seals_on_calls = seals_on_calls
        self.echoes_request = echoes_request
        self.keeps_state = keeps_state
        self.reports_input_first = reports_input_first
        self.writes_input_estimate = writes_input_estimate
