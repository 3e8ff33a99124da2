"""The Chat Completions API, as OpenAI and the many compatible servers and clients use it.

Requests:
- `request_reader`, `request_writer`: the body. `request_rules`: what the vendor refuses.
- `content_reader`, `content_writer`: messages, their parts, calls and results.
- `generation`: token limit, stop sequences, effort and output format.
- `tools`: tool declarations and `tool_choice`.
- `media`, `citations`, `reasoning`: images, audio and files, annotations, thoughts with their seals.

Replies:
- `stream_reader`: chunks of an upstream, with `deltas` for their content, and `calls` and `fragments` for the
  fragments of tool calls.
- `stream_writer`: chunks for a client.
- `stream_blocks`: what the open blocks of both remember, and the frames of chunks.
- `reply`: whole replies into streams and back.
- `stop_reasons`: finish reasons. `usage`: token counts, and hiding them from clients that do not ask.

`errors` writes errors, `stream_check` checks streams, `http_api` and `forwarding` hold the facts of the HTTP
API, `names` the names of the API and the flags about how a request was written.

State: one `MessageReader` or `MessageWriter` per request, one `ChatStreamReader` or `ChatStreamWriter` per
reply. Everything else is functions and tables.
"""

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.openai_chat import errors, reply, request_reader, request_writer, stream_check
from dragoman.dialects.openai_chat.forwarding import FORWARDING
from dragoman.dialects.openai_chat.http_api import COUNTING, HISTORY, HTTP_API
from dragoman.dialects.openai_chat.names import NAME
from dragoman.dialects.openai_chat.request_rules import REQUEST_RULES
from dragoman.dialects.openai_chat.stream_reader import ChatStreamReader
from dragoman.dialects.openai_chat.stream_writer import ChatStreamWriter

DIALECT = Dialect(
    NAME,
    request_reader=request_reader,
    request_writer=request_writer,
    stream_reader=ChatStreamReader,
    stream_writer=ChatStreamWriter,
    reply=reply,
    errors=errors,
    stream_check=stream_check,
    counting=COUNTING,
    forwarding=FORWARDING,
    http_api=HTTP_API,
    history=HISTORY,
    request_rules=REQUEST_RULES,
    # Text and calls are different fields of a message. OpenAI's stream helper takes a change of index for the
    # end of a call, so calls do not interleave with each other.
    call_order="beside",
    # Google's compatible endpoint seals calls.
    seals_on_calls=True,
    writes_input_estimate=True,
)
