"""The `generateContent` API of Google: calls are whole objects, thoughts and signatures are on parts.

The URL (`path`) holds the model and whether to stream, not the body.

Requests:
- `request_reader`, `request_writer`: the body. `request_rules`: what the vendor refuses.
- `content_reader`, `content_writer`: contents, their parts, calls and function responses.
- `generation`: `generationConfig`.
- `tools`: tool declarations, their schemas and `toolConfig`.
- `media`, `citations`, `reasoning`, `hosted`: inline data and files, grounding, thought signatures with their
  seals, parts of the tools that Gemini runs.

Replies:
- `stream_reader`, `stream_writer`: chunks of an upstream, and chunks for a client.
- `stream_blocks`: what the open blocks of both remember, and partial arguments.
- `reply`: whole replies into streams and back.
- `stop_reasons`: finish reasons, usage and the other metadata of a reply.

`errors` writes errors, `check` checks streams, `http_api`, `forwarding` and `counting` hold the facts of the
HTTP API, `names` the names of the API and the notes about how a request was written.

State: one `HistoryReader` or `HistoryWriter` per request, one `GeminiStreamReader` or `GeminiStreamWriter`
per reply. Everything else is functions and tables.
"""

from dragoman.dialects.base import Dialect
from dragoman.dialects.errors import read_error
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.gemini import check, errors, reply, request_reader, request_writer
from dragoman.dialects.gemini.counting import COUNTING
from dragoman.dialects.gemini.forwarding import FORWARDING
from dragoman.dialects.gemini.http_api import HTTP_API
from dragoman.dialects.gemini.names import NAME
from dragoman.dialects.gemini.request_rules import REQUEST_RULES
from dragoman.dialects.gemini.request_writer import path
from dragoman.dialects.gemini.stream_reader import GeminiStreamReader
from dragoman.dialects.gemini.stream_writer import GeminiStreamWriter
from dragoman.dialects.http_api import HttpApi

__all__ = ["DIALECT", "path"]


class GeminiDialect:
    """See `dragoman.dialects.base.Dialect`."""

    name = NAME
    object_arguments = True
    seals_on_calls = True
    counting = COUNTING
    echoes_request = False
    keeps_state = False
    reports_input_first = False
    writes_input_estimate = False
    forwarding: Forwarding = FORWARDING
    http_api: HttpApi = HTTP_API
    request_rules = REQUEST_RULES

    read_request = staticmethod(request_reader.read_request)
    write_request = staticmethod(request_writer.write_request)
    stream_reader = staticmethod(GeminiStreamReader)
    stream_writer = staticmethod(GeminiStreamWriter)
    explode = staticmethod(reply.explode)
    collect = staticmethod(reply.collect)
    read_error = staticmethod(read_error)
    write_error = staticmethod(errors.write_error)
    error_status = staticmethod(errors.error_status)
    error_headers = staticmethod(errors.error_headers)
    check_stream = staticmethod(check.check_stream)


DIALECT: Dialect = GeminiDialect()
