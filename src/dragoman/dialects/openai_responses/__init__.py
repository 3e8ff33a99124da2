"""The Responses API, as OpenAI, Codex and compatible servers use it.

A request is an array of items (`input`): messages, reasoning, calls and their outputs. A reply is an array of
items too (`output`), inside a response object that repeats the request.

Requests:
- `request_reader`, `request_writer`: the body. `request_rules`: what the vendor refuses.
- `content_reader`, `content_writer`: the items of `input`, their content parts, calls and outputs.
- `generation`: the settings `reasoning` and `text`.
- `tools`: tool declarations and `tool_choice`.
- `media`, `citations`, `reasoning`, `hosted`: images and files, annotations, reasoning items with their
  seals, items of the tools that OpenAI runs.

Replies:
- `stream_reader`, `stream_items`, `streamed_text`: events of an upstream, the items that are not finished
  yet, and their texts.
- `stream_writer`, `stream_blocks`, `item_emitter`: events for a client, the frames of each kind of item, and
  what all kinds share.
- `response_object`: the response object that lifecycle events hold.
- `reply`: whole replies into streams and back.
- `stop_reasons`: statuses and reasons. `usage`: token counts.

`errors` writes errors, `stream_check` checks streams, `http_api`, `forwarding` and `forwarded_ending` hold
the facts of the HTTP API, `names` the names and small functions that all of them use.

State: one `InputReader` or `InputWriter` per request, one `ResponsesStreamReader` or `ResponsesStreamWriter`
per reply. Everything else is functions and tables.

The writer emits events in this order, with consecutive sequence numbers:
1. `response.created`, `response.in_progress`;
2. for each item, one after another: `response.output_item.added`, the events of its content (a part is added,
   grows by deltas and is done), `response.output_item.done`;
3. `response.completed` or `response.incomplete`; after a failure `error` and `response.failed`;
4. `[DONE]`.
"""

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.openai_responses import errors, reply, request_reader, request_writer, stream_check
from dragoman.dialects.openai_responses.forwarding import FORWARDING
from dragoman.dialects.openai_responses.http_api import COUNTING, HISTORY, HTTP_API
from dragoman.dialects.openai_responses.names import NAME
from dragoman.dialects.openai_responses.request_rules import REQUEST_RULES
from dragoman.dialects.openai_responses.stream_reader import ResponsesStreamReader
from dragoman.dialects.openai_responses.stream_writer import ResponsesStreamWriter

DIALECT = Dialect(
    NAME,
    request_reader=request_reader,
    request_writer=request_writer,
    stream_reader=ResponsesStreamReader,
    stream_writer=ResponsesStreamWriter,
    reply=reply,
    errors=errors,
    stream_check=stream_check,
    counting=COUNTING,
    forwarding=FORWARDING,
    http_api=HTTP_API,
    history=HISTORY,
    request_rules=REQUEST_RULES,
    # Codex ends the message that it is receiving with any item that is done (`active_item`).
    call_order="in_turn",
    echoes_request=True,
    keeps_state=True,
)
