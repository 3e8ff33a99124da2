"""The Responses API, as OpenAI, Codex and compatible servers use it.

Requests: `request_reader` and `request_writer` translate the body, with `items` and `item_writer` for input
items, `calls` for calls of the client's tools and their outputs, `hosted` for items of the tools that OpenAI
runs, `parts` for content, `reasoning` for thoughts and seals, `tools`, `choice` and `search`. Replies:
`stream_reader` reads events, with `item_table` and `stream_items` for the items under way. `stream_writer`
writes events, with `item_emitters` for items and `response_object` for the response. `reply` turns whole
replies into streams and back, `reasons` translates statuses and usage, `citations` annotations. `errors`
writes errors, `check` checks streams, `vocabulary` holds what all of them use. State: one `ItemReader` or
`ItemWriter` per request, one stream reader or writer per reply.
"""

from collections.abc import Iterable, Mapping

from dragoman.dialects.base import Audience, Dialect, Json, Source, StreamReader, StreamWriter, Violation
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.openai_responses import check, errors, reply, request_reader, request_writer
from dragoman.dialects.openai_responses.counting import COUNTING
from dragoman.dialects.openai_responses.forwarding import FORWARDING
from dragoman.dialects.openai_responses.stream_reader import ResponsesStreamReader
from dragoman.dialects.openai_responses.stream_writer import ResponsesStreamWriter
from dragoman.dialects.openai_responses.surface import SURFACE
from dragoman.dialects.openai_responses.vocabulary import NAME
from dragoman.dialects.surface import Surface
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target
from dragoman.wire.sse import Frame, Frames


class OpenAIResponsesDialect:
    """See `dragoman.dialects.base.Dialect`."""

    name = NAME
    object_arguments = False
    seals_on_calls = False
    counting = COUNTING
    echoes_request = True
    keeps_state = True
    reports_input_first = False
    writes_input_estimate = False
    forwarding: Forwarding = FORWARDING
    surface: Surface = SURFACE

    def read_request(self, body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
        return request_reader.read_request(body, losses, model=model, stream=stream)

    def write_request(self, request: Request, target: Target, losses: Losses) -> Json:
        return request_writer.write_request(request, target, losses)

    def stream_reader(self, source: Source) -> StreamReader:
        return ResponsesStreamReader(source)

    def stream_writer(self, audience: Audience) -> StreamWriter:
        return ResponsesStreamWriter(audience)

    def explode(self, body: Json) -> Frames:
        return reply.explode(body)

    def collect(self, frames: Iterable[Frame]) -> Json:
        return reply.collect(frames)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return read_error(status, headers, body)

    def write_error(self, failure: Failure) -> Json:
        return errors.write_error(failure)

    def error_status(self, failure: Failure) -> int:
        return errors.error_status(failure)

    def error_headers(self, failure: Failure) -> dict[str, str]:
        return errors.error_headers(failure)

    def check_stream(self, stream: bytes) -> list[Violation]:
        return check.check_stream(stream)


DIALECT: Dialect = OpenAIResponsesDialect()
