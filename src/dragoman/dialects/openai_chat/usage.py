"""Requests the token usage from servers, hides it from clients that do not ask for it, and translates it.

Chat servers report the usage only if `stream_options.include_usage` is set, in a chunk of its own. Logs and
budgets need the usage always, so the gateway asks for it and removes that chunk for clients that did not.
"""

from typing import TypeGuard

import msgspec

from dragoman.dialects.forwarding import replace_members
from dragoman.hub.usage import Usage
from dragoman.wire.sse import Frame, SseReader

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: dict[str, msgspec.Raw] | None = None


_read_chunk = msgspec.json.Decoder(_Chunk).decode

INPUT_DETAILS = "prompt_tokens_details"
OUTPUT_DETAILS = "completion_tokens_details"

#: The names of the hub's counts, by the object that holds them ("" is the usage object itself).
USAGE_FIELDS: dict[str, dict[str, str]] = {
    "": {"prompt_tokens": "input", "completion_tokens": "output"},
    INPUT_DETAILS: {
        "cached_tokens": "cache_read",
        "cache_write_tokens": "cache_write",
        "audio_tokens": "audio_input",
    },
    OUTPUT_DETAILS: {"reasoning_tokens": "reasoning", "audio_tokens": "audio_output"},
}

#: Other names of a count, used only if the usual name is missing. They stay in the extras.
USAGE_ALIASES: dict[str, str] = {
    "input_tokens": "input",
    "output_tokens": "output",
    "prompt_cache_hit_tokens": "cache_read",
    "cached_tokens": "cache_read",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
    "created_cache_tokens": "cache_write",
    "reasoning_tokens": "reasoning",
}


def read_usage(value: dict[str, object]) -> Usage:
    """The counts of a usage object. Unknown fields stay in the extras."""
    rest = dict(value)
    counts: dict[str, int] = {}
    for place, names in USAGE_FIELDS.items():
        details = rest if not place else rest.get(place)
        if not isinstance(details, dict):
            continue
        if place:
            details = dict(details)
        for name, count in names.items():
            number = details.get(name)
            if is_count(number):
                counts[count] = number
            if number is not None or not place:
                details.pop(name, None)
        if place and details:
            rest[place] = details
        elif place and value[place]:
            del rest[place]
    for name, count in USAGE_ALIASES.items():
        number = rest.get(name)
        if count not in counts and is_count(number):
            counts[count] = number
    # The total is always written as the sum, so the server's value is not kept.
    rest.pop("total_tokens", None)
    return msgspec.convert({**counts, "extras": rest}, Usage)


def is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def write_usage(usage: Usage, *, same_dialect: bool) -> dict[str, object]:
    """Write a usage object. `same_dialect`: the counts come from Chat, so unknown fields are written too."""
    prompt, completion = usage.input or 0, usage.output or 0
    written: dict[str, object] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    for place in (INPUT_DETAILS, OUTPUT_DETAILS):
        details: dict[str, object] = {
            name: number
            for name, count in USAGE_FIELDS[place].items()
            if (number := getattr(usage, count)) is not None
        }
        if details:
            written[place] = details
    if same_dialect:
        for name, value in usage.extras.items():
            known = written.get(name)
            if isinstance(known, dict) and isinstance(value, dict):
                written[name] = {**known, **value}
            else:
                written[name] = value
    return written


def hides_usage(*, stream: bool, asks_for_usage: bool) -> bool:
    """Whether the client's reply has no usage. A reply that is not streamed always has it."""
    return stream and not asks_for_usage


def request_usage(body: bytes) -> bytes:
    """The request, which also asks the server for the usage."""
    try:
        members = _read_members(body)
        options = _read_members(members.get("stream_options", b"{}"))
    except msgspec.DecodeError:
        # The value has the wrong type; the server reports that.
        return body
    options["include_usage"] = msgspec.Raw(b"true")
    return replace_members(members, {"stream_options": msgspec.json.encode(options)})


def hide_usage(events: bytes) -> bytes:
    """The events without the chunks that report only the usage. The bytes of all others stay the same."""
    if not _has_usage(events):
        return events
    if b"\r" in events:
        events = events.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *whole, rest = events.split(b"\n\n")
    return b"".join([event + b"\n\n" for event in whole if not _reports_only_usage(event)]) + rest


def _has_usage(events: bytes) -> bool:
    return events.find(b'"usage":{') >= 0 or events.find(b'"usage": {') >= 0


def _reports_only_usage(event: bytes) -> bool:
    frames = SseReader().feed(event + b"\n\n") if _has_usage(event) else []
    return bool(frames) and all(map(_is_only_usage, frames))


def _is_only_usage(frame: Frame) -> bool:
    try:
        chunk = _read_chunk(frame.data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return chunk.usage is not None and not chunk.choices
