"""Rules for forwarding a stream of the Chat Completions API.

Chat servers report the usage only if `stream_options.include_usage` is set, in a chunk of its own. Logs and
budgets need the usage always, so the gateway asks for it and removes that chunk for clients that did not.

A failed stream ends as `ForwardedEnding` in `dialects/forwarding.py` does it, with the error event of
`stream_writer`.
"""

import msgspec

from dragoman.dialects.forwarding import Forwarding, RequestPeek, peek_members, replace_members
from dragoman.wire.sse import SseReader, write_frame

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: dict[str, msgspec.Raw] | None = None


_read_chunk = msgspec.json.Decoder(_Chunk).decode


def hides_usage(*, stream: bool, asks_for_usage: bool) -> bool:
    """Whether the client's reply has no usage. A reply that is not streamed always has it."""
    return stream and not asks_for_usage


class ChatForwarding(Forwarding):
    closing_mark = b"[DONE]"
    closing_event = b"data: [DONE]\n\n"
    # Deltas hold strings only, and quotes inside them are escaped.
    repeats_model = True

    def peek(self, body: bytes) -> RequestPeek | None:
        found = peek_members(body)
        if found is None:
            return None
        model, stream, options = found
        asks_for_usage = isinstance(options, dict) and options.get("include_usage") is True
        return RequestPeek(
            model, stream, hides_usage=hides_usage(stream=stream, asks_for_usage=asks_for_usage)
        )

    def request_usage(self, body: bytes) -> bytes:
        try:
            options = _read_members(_read_members(body).get("stream_options", b"{}"))
        except msgspec.DecodeError:
            # The value has the wrong type; the server reports that.
            return body
        options["include_usage"] = msgspec.Raw(b"true")
        return replace_members(body, {"stream_options": msgspec.json.encode(options)})

    def is_delta_run(self, events: bytes) -> bool:
        unfinished = events.count(b'"finish_reason":null')
        return (
            unfinished > 0
            and events.count(b"\n\n") == unfinished
            and events.count(b'"usage"') == events.count(b'"usage":null')
            and b'"error"' not in events
        )

    def select(self, events: bytes, *, hides_usage: bool) -> bytes:
        """All events, but for a chunk that reports only the usage to a client that did not ask for it."""
        if not hides_usage or (b'"usage":{' not in events and b'"usage": {' not in events):
            return events
        frames = SseReader().feed(events)
        return b"".join([write_frame(frame.data) for frame in frames if not _is_only_usage(frame.data)])


def _is_only_usage(data: bytes) -> bool:
    try:
        chunk = _read_chunk(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return chunk.usage is not None and not chunk.choices


FORWARDING = ChatForwarding()
