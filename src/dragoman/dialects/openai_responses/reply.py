"""Turns whole replies into streams and back, so that both take one path through the hub."""

from collections.abc import Iterable, Iterator

import msgspec

from dragoman.dialects.errors import read_failure
from dragoman.dialects.interfaces import ClientContext, Json, UpstreamContext
from dragoman.dialects.openai_responses.errors import write_error
from dragoman.dialects.openai_responses.item_emitter import EventNumbering
from dragoman.dialects.openai_responses.names import NAME, get_text
from dragoman.dialects.openai_responses.stop_reasons import TERMINAL_STATUS
from dragoman.dialects.openai_responses.stream_reader import ResponsesStreamReader
from dragoman.dialects.openai_responses.stream_writer import ResponsesStreamWriter
from dragoman.hub.builder import TRUNCATED_MESSAGE
from dragoman.hub.errors import Failure
from dragoman.wire.sse import Frame, Frames, join_frames


def explode(body: Json) -> Frames:
    """The frames of the stream with the same content as a whole response; an error for any other body."""
    if not isinstance(body.get("output"), list) and not isinstance(body.get("status"), str):
        error = body.get("error") or "the upstream answered with something that is not a response"
        fields = error if isinstance(error, dict) else {"message": error}
        return EventNumbering().write("error", {"error": fields})
    # The reader reads the body like a terminal event, and the writer writes all its events.
    reader = ResponsesStreamReader(UpstreamContext(issuer=NAME))
    writer = ResponsesStreamWriter(ClientContext(upstream=NAME))
    return join_frames(writer.write(event) for event in reader.read_body(body))


def collect(frames: Iterable[Frame]) -> Json:
    """The response of the terminal event, or the error body of a stream that failed before it started."""
    response: Json | None = None
    failure: Json | None = None
    done: dict[int, object] = {}
    for payload in _read_payloads(frames):
        kind, ended = get_text(payload, "type"), payload.get("response")
        if kind == "response.output_item.done":
            index = payload.get("output_index")
            done[index if type(index) is int else len(done)] = payload.get("item")
        elif kind in TERMINAL_STATUS and isinstance(ended, dict):
            response = ended
        elif kind == "error" or (payload.get("type") is None and payload.get("error")):
            error = payload.get("error")
            if isinstance(error, dict):
                return {"error": error}
            failure = write_error(read_failure(error or payload))
    if response is None:
        return failure or write_error(Failure(kind="overloaded", message=TRUNCATED_MESSAGE, status=502))
    if not response.get("output") and done:
        # Some servers send the items only in the stream, not in the terminal event.
        response = {**response, "output": [done[index] for index in sorted(done)]}
    return response


def _read_payloads(frames: Iterable[Frame]) -> Iterator[Json]:
    """The payloads that are JSON objects."""
    for frame in frames:
        try:
            payload = msgspec.json.decode(frame.data)
        except (ValueError, RecursionError):
            continue
        if isinstance(payload, dict):
            yield payload
