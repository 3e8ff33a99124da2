"""The Chat Completions API, as OpenAI and the many compatible servers and clients use it.

Requests: `request_reader` and `request_writer` translate the body, with `message_reader` and
`message_writer` for messages, `parts` and `media` for their content, `reasoning` for thoughts and seals, and
`tools`. `spelling` records how a request was written. Replies: `stream_reader` reads chunks, with `deltas`
for their content, `calls` for tool calls, `current_block` for the open block, and `repetition` for chunks
that repeat. `stream_writer` writes chunks, with `chunks` for their bytes and `open_blocks` for the state of
each block. `accumulate` and `reply` turn whole replies into streams and back. `reasons` translates finish
reasons and usage, `citations` annotations. `errors` writes errors, `check` checks streams. State: one
`MessageReader` or `MessageWriter` per request, one stream reader or writer per reply.
"""

from collections.abc import Iterable, Mapping

from dragoman.dialects.base import Audience, Json, Source, StreamReader, StreamWriter, Violation
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.http_api import HttpApi
from dragoman.dialects.openai_chat import check, errors, reply, request_reader, request_writer
from dragoman.dialects.openai_chat.counting import COUNTING
from dragoman.dialects.openai_chat.forwarding import FORWARDING
from dragoman.dialects.openai_chat.http_api import HTTP_API
from dragoman.dialects.openai_chat.spelling import NAME
from dragoman.dialects.openai_chat.stream_reader import ChatStreamReader
from dragoman.dialects.openai_chat.stream_writer import ChatStreamWriter
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target
from dragoman.wire.sse import Frame, Frames


class OpenAIChatDialect:
    """See `dragoman.dialects.base.Dialect`. Google's compatible endpoint seals calls."""

    name = NAME
    object_arguments = False
    seals_on_calls = True
    counting = COUNTING
    echoes_request = False
    keeps_state = False
    reports_input_first = False
    writes_input_estimate = True
    forwarding: Forwarding = FORWARDING
    http_api: HttpApi = HTTP_API

    def read_request(self, body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
        return request_reader.read_request(body, losses, model=model, stream=stream)

    def write_request(self, request: Request, target: Target, losses: Losses) -> Json:
        return request_writer.write_request(request, target, losses)

    def stream_reader(self, source: Source) -> StreamReader:
        return ChatStreamReader(source)

    def stream_writer(self, audience: Audience) -> StreamWriter:
        return ChatStreamWriter(audience)

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


DIALECT = OpenAIChatDialect()
