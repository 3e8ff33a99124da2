"""Whole replies and streams, each made into the other, so that both say the same."""

from collections.abc import Iterable

import msgspec

from dragoman.dialects.base import Audience, Json, Source
from dragoman.dialects.errors import read_failure
from dragoman.dialects.openai_responses.errors import write_error
from dragoman.dialects.openai_responses.ladders import Ladder
from dragoman.dialects.openai_responses.reasons import TERMINAL_STATUS
from dragoman.dialects.openai_responses.stream_reader import ResponsesStreamReader
from dragoman.dialects.openai_responses.stream_writer import ResponsesStreamWriter
from dragoman.dialects.openai_responses.vocabulary import NAME
from dragoman.hub.builder import TRUNCATED_MESSAGE
from dragoman.hub.errors import Failure
from dragoman.wire.sse import Frame, Frames, join_frames


def explode(body: Json) -> Frames:
    """The stream that says the same as a whole response; for anything else, the stream of an error."""
    if not isinstance(body.get("output"), list) and not isinstance(body.get("status"), str):
        error = body.get("error") or "the upstream answered with something that is not a response"
        fields = error if isinstance(error, dict) else {"message": error}
        return Ladder().event("error", {"error": fields})
    # The reader tells everything that a terminal event holds, and the writer spreads it out.
    reader = ResponsesStreamReader(Source(issuer=NAME))
    writer = ResponsesStreamWriter(Audience(upstream=NAME))
    return join_frames(writer.write(event) for event in reader.read_body(body))


def collect(frames: Iterable[Frame]) -> Json:
    """The response of the terminal event; the error body of a stream that failed before it began."""
    response: Json | None = None
    failure: Json | None = None
    done: dict[int, object] = {}
    for payload in _payloads(frames):
        kind, told = payload.get("type"), payload.get("response")
        if kind == "response.output_item.done":
            index = payload.get("output_index")
            done[index if type(index) is int else len(done)] = payload.get("item")
        elif isinstance(kind, str) and kind in TERMINAL_STATUS and isinstance(told, dict):
            response = told
        elif kind == "error" or (kind is None and payload.get("error")):
            nested = payload.get("error")
            if isinstance(nested, dict):
                return {"error": nested}
            failure = write_error(read_failure(nested or payload))
    if response is None:
        cut_off = Failure(kind="overloaded", message=TRUNCATED_MESSAGE, status=502)
        return failure or write_error(cut_off)
    if not response.get("output") and done:
        # Some servers tell the items only while they stream.
        response = {**response, "output": [done[index] for index in sorted(done)]}
    return response


def _payloads(frames: Iterable[Frame]) -> list[Json]:
    payloads: list[Json] = []
    for frame in frames:
        try:
            payload = msgspec.json.decode(frame.data)
        except (ValueError, RecursionError):
            continue
        if isinstance(payload, dict):
            payloads.append(payload)
    return payloads
