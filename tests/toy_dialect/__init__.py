"""A fifth dialect, which exists only in the tests: a small chat API of our own.

It proves that a new dialect is one folder and one line in the registry (`tests/test_toy_dialect.py`). The
files have the names of the real dialects. The API is unlike the real ones on purpose: its own paths, key
header, field names, errors, pings and rate-limit headers.

    request  {"model", "stream", "limit", "lines": [{"by", "text" | "call" | "of"}], "tools": [...]}
    reply    {"id", "model", "parts": [{"text"} | {"call"}], "end", "usage": {"in", "out"}}
    stream   {"begin"} ({"text"} | {"call"} {"input"}…)… {"end"}, or {"failed"} at any place
"""

from dragoman.dialects.base import Dialect
from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.http_api import HttpApi
from dragoman.dialects.request_rules import RequestRule
from tests.toy_dialect import check, errors, reply, request_reader, request_writer
from tests.toy_dialect.counting import COUNTING
from tests.toy_dialect.forwarding import FORWARDING
from tests.toy_dialect.http_api import HTTP_API
from tests.toy_dialect.stream_reader import ToyStreamReader
from tests.toy_dialect.stream_writer import ToyStreamWriter


class ToyDialect:
    """See `dragoman.dialects.base.Dialect`."""

    name = "toy"
    object_arguments = False
    seals_on_calls = False
    counting = COUNTING
    echoes_request = False
    keeps_state = False
    reports_input_first = False
    writes_input_estimate = False
    forwarding: Forwarding = FORWARDING
    http_api: HttpApi = HTTP_API
    request_rules: tuple[RequestRule, ...] = ()

    read_request = staticmethod(request_reader.read_request)
    write_request = staticmethod(request_writer.write_request)
    stream_reader = ToyStreamReader
    stream_writer = ToyStreamWriter
    explode = staticmethod(reply.explode)
    collect = staticmethod(reply.collect)
    read_error = staticmethod(errors.read_error)
    write_error = staticmethod(errors.write_error)
    error_status = staticmethod(errors.error_status)
    error_headers = staticmethod(errors.error_headers)
    check_stream = staticmethod(check.check_stream)


DIALECT: Dialect = ToyDialect()
