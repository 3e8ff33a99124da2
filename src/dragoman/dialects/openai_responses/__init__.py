"""The OpenAI Responses API, and the servers and clients that speak it."""

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


class OpenAIResponses:
    """See `Dialect` for what each part does."""

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


DIALECT: Dialect = OpenAIResponses()
