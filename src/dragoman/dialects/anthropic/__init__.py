"""The Messages API of Anthropic, as Claude Code and Anthropic's SDKs use it.

Requests:
- `request_reader`, `request_writer`: the body.
- `content_reader`, `content_writer`: messages and their blocks.
- `generation`: thinking, effort and output format.
- `tools`: tool declarations and `tool_choice`.
- `media`, `citations`, `reasoning`, `hosted`: images and documents, citations, thinking blocks with their
  seals, blocks of the tools that Anthropic runs.

Replies:
- `stream_reader`: events of an upstream.
- `stream_writer`, `stream_blocks`: events for a client, and the frames of each kind of block.
- `reply`: whole replies into streams and back.
- `stop_reasons`: stop reasons and usage.

`errors` writes errors, `check` checks streams, `http_api`, `forwarding` and `counting` hold the facts of the
HTTP API, `names` the names and small functions that all of them use.

State: one `ContentReader` per request, one `AnthropicStreamReader` or `AnthropicStreamWriter` per reply.
Everything else is functions and tables.
"""

from collections.abc import Iterable, Mapping

from dragoman.dialects.anthropic import check, errors, reply, request_reader, request_writer
from dragoman.dialects.anthropic.counting import COUNTING
from dragoman.dialects.anthropic.forwarding import FORWARDING
from dragoman.dialects.anthropic.http_api import HTTP_API
from dragoman.dialects.anthropic.names import NAME
from dragoman.dialects.anthropic.stream_reader import AnthropicStreamReader
from dragoman.dialects.anthropic.stream_writer import AnthropicStreamWriter
from dragoman.dialects.base import ClientContext, Json, UpstreamContext, Violation
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.http_api import HttpApi
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target
from dragoman.wire.sse import Frame, Frames


class AnthropicDialect:
    """See `dragoman.dialects.base.Dialect`."""

    name = NAME
    object_arguments = True
    seals_on_calls = False
    counting = COUNTING
    echoes_request = False
    keeps_state = False
    reports_input_first = True
    writes_input_estimate = True
    forwarding: Forwarding = FORWARDING
    http_api: HttpApi = HTTP_API

    def read_request(
        self, body: Json, losses: Losses, *, model: str = "", stream: bool = False, counting: bool = False
    ) -> Request:
        """Read a body. `counting`: it asks for a token count, which needs no `max_tokens`."""
        return request_reader.read_request(body, losses, model=model, stream=stream, counting=counting)

    def write_request(self, request: Request, target: Target, losses: Losses) -> Json:
        return request_writer.write_request(request, target, losses)

    def stream_reader(self, context: UpstreamContext) -> AnthropicStreamReader:
        return AnthropicStreamReader(context)

    def stream_writer(self, context: ClientContext) -> AnthropicStreamWriter:
        return AnthropicStreamWriter(context)

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


DIALECT = AnthropicDialect()
