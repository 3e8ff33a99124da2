"""A fifth dialect, which exists only in the tests: a small chat API of our own.

It proves that a new dialect is one folder and one line in the registry (`tests/test_toy_dialect.py`). The
files have the names of the real dialects. The API is unlike the real ones on purpose: its own paths, key
header, field names, errors, pings and rate-limit headers.

    request  {"model", "stream", "limit", "lines": [{"by", "text" | "call" | "of"}], "tools": [...]}
    reply    {"id", "model", "parts": [{"text"} | {"call"}], "end", "usage": {"in", "out"}}
    stream   {"begin"} ({"text"} | {"call"} {"input"}…)… {"end"}, or {"failed"} at any place
"""

from dragoman.dialects.dialect import Dialect
from tests.toy_dialect import errors, reply, request_reader, request_writer, stream_check
from tests.toy_dialect.forwarding import FORWARDING
from tests.toy_dialect.http_api import COUNTING, HISTORY, HTTP_API
from tests.toy_dialect.stream_reader import ToyStreamReader
from tests.toy_dialect.stream_writer import ToyStreamWriter

DIALECT = Dialect(
    "toy",
    request_reader=request_reader,
    request_writer=request_writer,
    stream_reader=ToyStreamReader,
    stream_writer=ToyStreamWriter,
    reply=reply,
    errors=errors,
    stream_check=stream_check,
    counting=COUNTING,
    forwarding=FORWARDING,
    http_api=HTTP_API,
    history=HISTORY,
    read_error=errors.read_error,
)
