"""Receives the telemetry of agents (OTLP/HTTP) at `/v1/metrics`, `/v1/logs` and `/v1/traces`."""

from dragoman.accounts.accounts import Accounts
from dragoman.accounts.activity import ActivityCounts
from dragoman.accounts.keys import Caller
from dragoman.server.request import HttpRequest
from dragoman.telemetry.otlp import read_measurements

#: Bytes, after decompression. Agents report every few seconds.
MAX_BODY = 4 * 1024 * 1024


async def receive_telemetry(request: HttpRequest, accounts: Accounts, caller: Caller) -> ActivityCounts:
    """Store what the request reports, and answer it. Traces are accepted and not stored."""
    body = await request.receive_body(MAX_BODY)
    content_type = request.headers.get("content-type", "").lower()
    signal = request.path.rstrip("/").rpartition("/")[2]
    measurements = read_measurements(signal, body, content_type) if signal != "traces" else []
    counts = await accounts.add_activity(caller, measurements)
    # An empty message of protobuf has no bytes.
    is_json = "json" in content_type
    data = b"{}" if is_json else b""
    kind = "application/json" if is_json else "application/x-protobuf"
    await request.client.respond(200, {"content-type": kind, "content-length": str(len(data))}, data)
    return counts
