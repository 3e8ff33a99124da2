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
- `stop_reasons`: finish reasons and the other metadata of a reply. `usage`: token counts. `logprobs`: the
  probabilities of tokens.

`errors` writes errors, `stream_check` checks streams, `http_api` and `forwarding` hold the facts of the HTTP
API, `names` the names of the API and the flags about how a request was written.

State: one `HistoryReader` or `HistoryWriter` per request, one `GeminiStreamReader` or `GeminiStreamWriter`
per reply. Everything else is functions and tables.
"""

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.gemini import errors, reply, request_reader, request_writer, stream_check
from dragoman.dialects.gemini.forwarding import FORWARDING
from dragoman.dialects.gemini.http_api import COUNTING, HISTORY, HTTP_API
from dragoman.dialects.gemini.names import NAME
from dragoman.dialects.gemini.request_rules import REQUEST_RULES
from dragoman.dialects.gemini.request_writer import path
from dragoman.dialects.gemini.stream_reader import GeminiStreamReader
from dragoman.dialects.gemini.stream_writer import GeminiStreamWriter

__all__ = ["DIALECT", "path"]

DIALECT = Dialect(
    NAME,
    request_reader=request_reader,
    request_writer=request_writer,
    stream_reader=GeminiStreamReader,
    stream_writer=GeminiStreamWriter,
    reply=reply,
    errors=errors,
    stream_check=stream_check,
    counting=COUNTING,
    forwarding=FORWARDING,
    http_api=HTTP_API,
    history=HISTORY,
    request_rules=REQUEST_RULES,
    # A call is one part with all its arguments.
    call_order="whole",
    object_arguments=True,
    seals_on_calls=True,
)
