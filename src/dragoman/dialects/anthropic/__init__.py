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
- `stream_writer`: events for a client. `stream_blocks`: what the open blocks of both remember, and the
  frames of each kind of block.
- `reply`: whole replies into streams and back.
- `stop_reasons`: stop reasons. `usage`: token counts.

`errors` writes errors, `stream_check` checks streams, `http_api`, `rate_limits` and `forwarding` hold the
facts of the HTTP API, `names` the names and small functions that all of them use.

State: one `ContentReader` per request, one `AnthropicStreamReader` or `AnthropicStreamWriter` per reply.
Everything else is functions and tables.
"""

from dragoman.dialects.anthropic import errors, reply, request_reader, request_writer, stream_check
from dragoman.dialects.anthropic.forwarding import FORWARDING
from dragoman.dialects.anthropic.http_api import COUNTING, HISTORY, HTTP_API
from dragoman.dialects.anthropic.names import NAME
from dragoman.dialects.anthropic.request_rules import REQUEST_RULES
from dragoman.dialects.anthropic.stream_reader import AnthropicStreamReader
from dragoman.dialects.anthropic.stream_writer import AnthropicStreamWriter
from dragoman.dialects.dialect import Dialect

DIALECT = Dialect(
    NAME,
    request_reader=request_reader,
    request_writer=request_writer,
    stream_reader=AnthropicStreamReader,
    stream_writer=AnthropicStreamWriter,
    reply=reply,
    errors=errors,
    stream_check=stream_check,
    counting=COUNTING,
    forwarding=FORWARDING,
    http_api=HTTP_API,
    history=HISTORY,
    request_rules=REQUEST_RULES,
    # A content block starts after the stop of the one before it.
    call_order="in_turn",
    object_arguments=True,
    reports_input_first=True,
    writes_input_estimate=True,
)
