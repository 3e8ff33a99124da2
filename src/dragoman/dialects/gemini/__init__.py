"""The `generateContent` API of Google: calls are whole objects, thoughts and signatures are on parts.

The URL (`path`) holds the model and whether to stream, not the body.

Requests: `request_reader` and `request_writer` translate the body, with `history_reader` and
`history_writer` for contents, `part_reader` and `part_writer` for parts, `results` for function responses,
`signature` for seals, `generation` for `generationConfig`, `tools` and `schema`. `forms` and `spelling`
record how a request was written. Replies: `stream_reader` (with `framing`, `calls`, `partial_arguments`,
`metadata`) and `stream_writer` translate streams, `grounding` citations, `reasons` finish reasons and usage;
`reply` turns whole replies into streams and back. `errors` writes errors, `check` checks streams, `counting`
serves `countTokens`. State: one `HistoryReader` or `HistoryWriter` per request, one stream reader or writer
per reply.
"""

from collections.abc import Iterable, Mapping

from dragoman.dialects.base import Audience, Dialect, Json, Source, Violation
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.gemini import check, errors, reply, request_reader, request_writer
from dragoman.dialects.gemini.counting import COUNTING
from dragoman.dialects.gemini.forwarding import FORWARDING
from dragoman.dialects.gemini.http_api import HTTP_API
from dragoman.dialects.gemini.request_writer import path
from dragoman.dialects.gemini.stream_reader import GeminiStreamReader
from dragoman.dialects.gemini.stream_writer import GeminiStreamWriter
from dragoman.dialects.http_api import HttpApi
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target
from dragoman.wire.sse import Frame, Frames

__all__ = ["DIALECT", "path"]


class GeminiDialect:
    """See `dragoman.dialects.base.Dialect`."""

    name = "gemini"
    object_arguments = True
    seals_on_calls = True
    counting = COUNTING
    echoes_request = False
    keeps_state = False
    reports_input_first = False
    writes_input_estimate = False
    forwarding: Forwarding = FORWARDING
    http_api: HttpApi = HTTP_API

    def read_request(self, body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
        return request_reader.read_request(body, losses, model=model, stream=stream)

    def write_request(self, request: Request, target: Target, losses: Losses) -> Json:
        return request_writer.write_request(request, target, losses)

    def stream_reader(self, source: Source) -> GeminiStreamReader:
        return GeminiStreamReader(source)

    def stream_writer(self, audience: Audience) -> GeminiStreamWriter:
        return GeminiStreamWriter(audience)

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


DIALECT: Dialect = GeminiDialect()
