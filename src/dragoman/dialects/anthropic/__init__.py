"""The Messages API of Anthropic, as Claude Code and Anthropic's SDKs use it.

Requests: `request_reader` and `request_writer` translate the body, with `content_reader` and
`content_writer` for messages, `reasoning` for thinking blocks and their seals, `hosted` for the tools that
Anthropic runs, `media`, `citations`, `tools` and `controls` (thinking, effort, output format). Replies:
`stream_reader` and `stream_writer` (with `stream_blocks`) translate streams, `reply` turns whole replies
into streams and back, `reasons` translates stop reasons and usage. `errors` writes errors, `check` checks
streams, `spelling` holds the small values that all of them use. State: one `ContentReader` per request, one
stream reader or writer per reply; everything else is functions.
"""

from collections.abc import Iterable, Mapping

from dragoman.dialects.anthropic import check, errors, reply, request_reader, request_writer
from dragoman.dialects.anthropic.counting import COUNTING
from dragoman.dialects.anthropic.forwarding import FORWARDING
from dragoman.dialects.anthropic.spelling import NAME
from dragoman.dialects.anthropic.stream_reader import AnthropicStreamReader
from dragoman.dialects.anthropic.stream_writer import AnthropicStreamWriter
from dragoman.dialects.anthropic.surface import SURFACE
from dragoman.dialects.base import Audience, Json, Source, Violation
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.surface import Surface
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
    surface: Surface = SURFACE

    def read_request(
        self, body: Json, losses: Losses, *, model: str = "", stream: bool = False, counting: bool = False
    ) -> Request:
        """Read a body. `counting`: it asks for a token count, which needs no `max_tokens`."""
        return request_reader.read_request(body, losses, model=model, stream=stream, counting=counting)

    def write_request(self, request: Request, target: Target, losses: Losses) -> Json:
        return request_writer.write_request(request, target, losses)

    def stream_reader(self, source: Source) -> AnthropicStreamReader:
        return AnthropicStreamReader(source)

    def stream_writer(self, audience: Audience) -> AnthropicStreamWriter:
        return AnthropicStreamWriter(audience)

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
