"""The Messages API of Anthropic, as Claude Code and Anthropic's SDKs use it.

Requests:
- `request_reader`, `request_writer`: the body. `request_rules`: what the vendor refuses.
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

from dragoman.dialects.anthropic import check, errors, reply, request_reader, request_writer
from dragoman.dialects.anthropic.counting import COUNTING
from dragoman.dialects.anthropic.forwarding import FORWARDING
from dragoman.dialects.anthropic.http_api import HTTP_API
from dragoman.dialects.anthropic.names import NAME
from dragoman.dialects.anthropic.request_rules import REQUEST_RULES
from dragoman.dialects.anthropic.stream_reader import AnthropicStreamReader
from dragoman.dialects.anthropic.stream_writer import AnthropicStreamWriter
from dragoman.dialects.base import Dialect
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.http_api import HttpApi


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
    request_rules = REQUEST_RULES

    read_request = staticmethod(request_reader.read_request)
    write_request = staticmethod(request_writer.write_request)
    stream_reader = staticmethod(AnthropicStreamReader)
    stream_writer = staticmethod(AnthropicStreamWriter)
    explode = staticmethod(reply.explode)
    collect = staticmethod(reply.collect)
    read_error = staticmethod(read_error)
    write_error = staticmethod(errors.write_error)
    error_status = staticmethod(errors.error_status)
    error_headers = staticmethod(errors.error_headers)
    check_stream = staticmethod(check.check_stream)


DIALECT: Dialect = AnthropicDialect()
