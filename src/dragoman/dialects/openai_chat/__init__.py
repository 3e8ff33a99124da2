"""The Chat Completions API, as OpenAI and the many compatible servers and clients use it.

Requests:
- `request_reader`, `request_writer`: the body. `request_rules`: what the vendor refuses.
- `content_reader`, `content_writer`: messages, their parts, calls and results.
- `generation`: token limit, stop sequences, effort and output format.
- `tools`: tool declarations and `tool_choice`.
- `media`, `citations`, `reasoning`: images, audio and files, annotations, thoughts with their seals.

Replies:
- `stream_reader`: chunks of an upstream, with `deltas` for their content and `calls` for the fragments of
  tool calls.
- `stream_writer`: chunks for a client.
- `stream_blocks`: what the open blocks of both remember, and the frames of chunks.
- `reply`: whole replies into streams and back.
- `stop_reasons`: finish reasons and usage.

`errors` writes errors, `check` checks streams, `http_api`, `forwarding` and `counting` hold the facts of the
HTTP API, `names` the names of the API and the notes about how a request was written.

State: one `MessageReader` or `MessageWriter` per request, one `ChatStreamReader` or `ChatStreamWriter` per
reply. Everything else is functions and tables.
"""

from dragoman.dialects.base import Dialect
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.http_api import HttpApi
from dragoman.dialects.openai_chat import check, errors, reply, request_reader, request_writer
from dragoman.dialects.openai_chat.counting import COUNTING
from dragoman.dialects.openai_chat.forwarding import FORWARDING
from dragoman.dialects.openai_chat.http_api import HTTP_API
from dragoman.dialects.openai_chat.names import NAME
from dragoman.dialects.openai_chat.request_rules import REQUEST_RULES
from dragoman.dialects.openai_chat.stream_reader import ChatStreamReader
from dragoman.dialects.openai_chat.stream_writer import ChatStreamWriter


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
    request_rules = REQUEST_RULES

    read_request = staticmethod(request_reader.read_request)
    write_request = staticmethod(request_writer.write_request)
    stream_reader = staticmethod(ChatStreamReader)
    stream_writer = staticmethod(ChatStreamWriter)
    explode = staticmethod(reply.explode)
    collect = staticmethod(reply.collect)
    read_error = staticmethod(read_error)
    write_error = staticmethod(errors.write_error)
    error_status = staticmethod(errors.error_status)
    error_headers = staticmethod(errors.error_headers)
    check_stream = staticmethod(check.check_stream)


DIALECT: Dialect = OpenAIChatDialect()
