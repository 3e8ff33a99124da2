"""Chat servers count tokens only if asked to, in an event that clients who did not ask must not get.

Logs and budgets need the count whoever asked, so it is asked for and kept from the client.
"""

import msgspec

from dragoman.wire.sse import SseReader, write_frame

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: dict[str, msgspec.Raw] | None = None


_chunk = msgspec.json.Decoder(_Chunk).decode


def is_asked(stream_options: object) -> bool:
    return isinstance(stream_options, dict) and stream_options.get("include_usage") is True


def asking(body: bytes) -> bytes:
    """The request, which also asks for the usage; every other byte of every value stays as it was."""
    members = _members(body)
    try:
        options = _members(members.get("stream_options", b"{}"))
    except msgspec.DecodeError:
        # Whatever it is, the server may complain about it.
        return body
    options["include_usage"] = msgspec.Raw(b"true")
    return msgspec.json.encode({**members, "stream_options": options})


def without_usage(events: bytes) -> bytes:
    """The events but for the one that tells the usage and nothing else."""
    if b'"usage":{' not in events and b'"usage": {' not in events:
        return events
    frames = SseReader().feed(events)
    return b"".join([write_frame(frame.data) for frame in frames if not _is_only_usage(frame.data)])


def _is_only_usage(data: bytes) -> bool:
    try:
        chunk = _chunk(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return chunk.usage is not None and not chunk.choices
