"""Random replies that obey the hub's grammar, and random damage to recorded streams and bodies.

`replies()` draws what any stream writer must be able to write; extras and forms stay empty, because they
mean something to one dialect alone. `mutated_streams()` and `mutated_bodies()` draw what any reader must
survive; `pieces_of()` cuts bytes anywhere, which must change nothing.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
from hypothesis import strategies as st

from dragoman.hub.blocks import (
    Citation,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    ReplyBlock,
    Text,
    ToolCall,
)
from dragoman.hub.errors import STATUS_OF_KIND, Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    FailedEnding,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    StopCause,
    TextDelta,
    UsageReported,
)
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
CAUSES_WITHOUT_CALLS: tuple[StopCause, ...] = (
    "end",
    "length",
    "stop_sequence",
    "refusal",
    "content_filter",
    "context_window",
    "pause",
    "malformed_call",
    "compaction",
    "other",
)
CAUSES_WITH_CALLS: tuple[StopCause, ...] = (
    "tool_calls",
    "length",
    "refusal",
    "content_filter",
    "context_window",
    "pause",
    "malformed_call",
    "other",
)
FAILED_ENDINGS: tuple[FailedEnding, ...] = ("failed", "truncated", "cancelled")

#: Text with what breaks naive framing: line ends, quotes, control characters, astral letters.
texts = st.text(
    alphabet=st.one_of(st.sampled_from('ab \n\r"\\{}[]:,é\u2028😀'), st.characters(codec="utf-8")),
    min_size=1,
    max_size=12,
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,12}", fullmatch=True)
base64_texts = st.binary(min_size=1, max_size=12).map(lambda data: base64.b64encode(data).decode())
counts = st.none() | st.integers(0, 100_000)

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)


def seals(issuers: Sequence[str] = DIALECTS) -> st.SearchStrategy[Seal]:
    return st.builds(
        Seal, issuer=st.sampled_from(issuers), model=st.sampled_from(["", "model-a"]), value=base64_texts
    )


citations = st.builds(
    Citation,
    url=st.sampled_from(["", "https://example.com/page"]),
    title=st.sampled_from(["", "A page"]),
    quote=st.sampled_from(["", "as it says"]),
    start=st.integers(-1, 5),
    end=st.integers(-1, 9),
)

usages = st.builds(
    Usage,
    input=counts,
    output=counts,
    cache_read=counts,
    cache_write=counts,
    cache_write_long=counts,
    reasoning=counts,
    tool_input=counts,
    audio_input=counts,
    audio_output=counts,
    web_searches=counts,
)

starts = st.builds(
    ReplyStarted,
    id=st.sampled_from(["", "msg_01ABCDEFGH", "chatcmpl-ABCDEFGH", "resp_ABCDEFGH", "odd id"]),
    model=st.sampled_from(["", "model-a"]),
    created=st.sampled_from([0, 1_700_000_000]),
)

failures = st.builds(
    Failure,
    kind=st.sampled_from(sorted(STATUS_OF_KIND)),
    message=texts,
    status=st.sampled_from([0, 400, 429, 500, 503, 529]),
    code=st.sampled_from(["", "some_code"]),
    param=st.sampled_from(["", "messages[0]"]),
    retry_after=st.none() | st.floats(0, 600),
)

media = st.one_of(
    st.builds(Media, kind=st.just("image"), media_type=st.just("image/png"), data=base64_texts),
    st.builds(Media, kind=st.just("audio"), media_type=st.just("audio/wav"), data=base64_texts),
    st.just(Media(kind="image", url="https://example.com/a.png")),
    st.just(Media(kind="document", file_id="file_1", media_type="application/pdf")),
    st.builds(Media, kind=st.just("document"), media_type=st.just("text/plain"), text=texts),
)

argument_texts = st.one_of(
    json_objects.map(lambda value: msgspec.json.encode(value).decode()),
    st.just(""),
    # What half-broken models send: cut off, not JSON, not an object.
    json_objects.map(lambda value: msgspec.json.encode(value).decode()[:-1]),
    st.sampled_from(["ls -la", "[1]", '"text"', "null", '{"a": 1} trailing', '{"a": ']),
)


def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The text in one to three pieces that are not empty."""
    edges = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=2))})
    return [text[a:b] for a, b in pairwise(edges)]


@st.composite
def _text_block(draw: st.DrawFn, index: int, issuers: Sequence[str]) -> list[ReplyEvent]:
    events: list[ReplyEvent] = [BlockOpened(index, Text(text=draw(st.sampled_from(["", "", "begun "]))))]
    for text in draw(st.lists(texts, max_size=3)):
        events.append(TextDelta(index, text))
        events += [CitationAdded(index, c) for c in draw(st.lists(citations, max_size=1))]
    if draw(st.integers(0, 3)) == 0:
        events.append(SealAttached(index, draw(seals(issuers))))
    return events


@st.composite
def _refusal_block(draw: st.DrawFn, index: int, issuers: Sequence[str]) -> list[ReplyEvent]:
    deltas = [TextDelta(index, text) for text in draw(st.lists(texts, max_size=2))]
    return [BlockOpened(index, Refusal(text="")), *deltas]


@st.composite
def _reasoning_block(draw: st.DrawFn, index: int, issuers: Sequence[str]) -> list[ReplyEvent]:
    """Thought with a seal or without; redacted; a seal alone that carries no thought; nothing at all."""
    raw = draw(st.booleans())
    if draw(st.integers(0, 4)) == 0:
        return [BlockOpened(index, Reasoning(redacted=True, seal=draw(seals(issuers))))]
    events: list[ReplyEvent] = [BlockOpened(index, Reasoning(raw=raw))]
    for part in range(draw(st.integers(0, 2))):
        events += [
            ReasoningDelta(index, text, part) for text in draw(st.lists(texts, min_size=1, max_size=2))
        ]
    if draw(st.booleans()):
        events.append(SealAttached(index, draw(seals(issuers))))
    return events


@st.composite
def _call_block(draw: st.DrawFn, index: int, issuers: Sequence[str]) -> list[ReplyEvent]:
    kind = draw(st.sampled_from(["function", "function", "function", "custom"]))
    call = ToolCall(
        id=f"call_{index}_{draw(names)}",
        name=draw(names),
        kind="custom" if kind == "custom" else "function",
    )
    arguments = draw(texts if kind == "custom" else argument_texts)
    events: list[ReplyEvent] = [BlockOpened(index, call)]
    events += [ArgumentsDelta(index, piece) for piece in _pieces(draw, arguments)]
    if draw(st.integers(0, 2)) == 0:
        events.insert(draw(st.integers(1, len(events))), SealAttached(index, draw(seals(issuers))))
    return events


@st.composite
def _whole_block(draw: st.DrawFn, index: int, issuers: Sequence[str]) -> list[ReplyEvent]:
    tool = draw(st.sampled_from(["web_search", "code_execution", "mcp"]))
    block: ReplyBlock = draw(
        st.one_of(
            media,
            st.builds(
                HostedCall, id=st.just(f"hosted_{index}"), tool=st.just(tool), arguments=argument_texts
            ),
            st.builds(
                HostedResult,
                call_id=st.just(f"hosted_{max(index - 1, 0)}"),
                tool=st.just(tool),
                text=texts,
                is_error=st.booleans(),
            ),
            st.builds(
                Opaque,
                kind=st.just("made_up"),
                value=st.just({"type": "made_up"}),
                text=st.sampled_from(["", "said otherwise"]),
            ),
        )
    )
    return [BlockOpened(index, block)]


_BLOCKS = (_text_block, _text_block, _reasoning_block, _call_block, _call_block, _refusal_block, _whole_block)


def _interleaved(draw: st.DrawFn, plans: list[list[ReplyEvent]]) -> list[ReplyEvent]:
    """The blocks' events, each in its own order, opening in order of their numbers."""
    events: list[ReplyEvent] = []
    waiting = [iter(plan) for plan in plans]
    running: list[Iterator[ReplyEvent]] = []
    while waiting or running:
        choice = draw(st.integers(0, len(running)))
        if waiting and (choice == len(running) or not running):
            running.append(waiting.pop(0))
        source = running[min(choice, len(running) - 1)]
        event = next(source, None)
        if event is None:
            running.remove(source)
        else:
            events.append(event)
    return events


@st.composite
def replies(
    draw: st.DrawFn,
    *,
    interleaving: bool = True,
    failing: bool = True,
    issuers: Sequence[str] = DIALECTS,
    max_blocks: int = 5,
) -> list[ReplyEvent]:
    """The events of one reply, whole or broken off, that `GrammarChecker` accepts."""
    kinds = draw(st.lists(st.sampled_from(_BLOCKS), max_size=max_blocks))
    plans = [[*draw(kind(index, issuers)), BlockClosed(index)] for index, kind in enumerate(kinds)]
    if interleaving and draw(st.booleans()):
        body = _interleaved(draw, plans)
    else:
        body = [event for plan in plans for event in plan]
    events: list[ReplyEvent] = [draw(starts), *body]
    for usage in draw(st.lists(usages, max_size=2)):
        events.insert(draw(st.integers(1, len(events))), UsageReported(usage))
    if failing and draw(st.integers(0, 3)) == 0:
        kept = draw(st.integers(0, len(events)))
        return [*events[:kept], ReplyFailed(draw(st.sampled_from(FAILED_ENDINGS)), draw(failures))]
    has_calls = any(isinstance(e, BlockOpened) and isinstance(e.block, ToolCall) for e in events)
    cause = draw(st.sampled_from(CAUSES_WITH_CALLS if has_calls else CAUSES_WITHOUT_CALLS))
    finished = ReplyFinished(
        cause=cause,
        raw_cause=draw(st.sampled_from(["", "a_word_of_its_own"])),
        stop_sequence="###" if cause == "stop_sequence" else None,
        explanation=draw(st.sampled_from(["", "against the rules"])),
    )
    return [*events, finished]


def pieces_of(stream: bytes) -> st.SearchStrategy[list[bytes]]:
    """The same bytes, cut anywhere; some pieces are empty."""
    return st.lists(st.integers(0, len(stream)), max_size=12).map(
        lambda cuts: [
            stream[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(stream)], strict=True)
        ]
    )


_FRAME_END = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
_DATA_LINE = re.compile(rb"^(data: ?)(.*?)(\r?\n)", re.MULTILINE)


def frames_of(stream: bytes) -> list[bytes]:
    """The frames of an event stream, each with its blank line."""
    return [frame for frame in _FRAME_END.split(stream) if frame]


def _places(value: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*place, index))


def _replaced(value: object, place: tuple[str | int, ...], new: object, *, drop: bool) -> object:
    """A copy of the value with another thing, or nothing, at the place."""
    if not place:
        return new
    key, rest = place[0], place[1:]
    if isinstance(value, dict):
        if not rest and drop:
            return {k: v for k, v in value.items() if k != key}
        return {k: _replaced(v, rest, new, drop=drop) if k == key else v for k, v in value.items()}
    if isinstance(value, list):
        if not rest and drop:
            return [v for i, v in enumerate(value) if i != key]
        return [_replaced(v, rest, new, drop=drop) if i == key else v for i, v in enumerate(value)]
    return value


@st.composite
def mutated_json(draw: st.DrawFn, value: object) -> object:
    """The value with one to three members dropped or replaced by something of any type."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(_places(value))))
        value = _replaced(value, place, draw(json_values), drop=bool(place) and draw(st.booleans()))
    return value


@st.composite
def mutated_bodies(draw: st.DrawFn, bodies: Sequence[dict[str, object]]) -> dict[str, object]:
    """A copy of one of the bodies, damaged inside; still a JSON object, and free to be taken apart."""
    value = msgspec.json.decode(msgspec.json.encode(draw(mutated_json(draw(st.sampled_from(bodies))))))
    return value if isinstance(value, dict) else {"value": value}


def _with_mutated_data(draw: st.DrawFn, frame: bytes) -> bytes:
    line = _DATA_LINE.search(frame)
    if line is None:
        return frame
    try:
        payload = msgspec.json.decode(line[2])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return frame
    data = msgspec.json.encode(draw(mutated_json(payload)))
    return frame[: line.start(2)] + data + frame[line.end(2) :]


def _with_corrupt_bytes(draw: st.DrawFn, frame: bytes) -> bytes:
    start = draw(st.integers(0, len(frame)))
    length = draw(st.integers(0, 4))
    return frame[:start] + draw(st.binary(max_size=4)) + frame[start + length :]


def _damage(draw: st.DrawFn, frames: list[bytes]) -> list[bytes]:
    """One kind of damage to a list of frames that is not empty."""
    index = draw(st.integers(0, len(frames) - 1))
    before, frame, after = frames[:index], frames[index], frames[index + 1 :]
    match draw(
        st.sampled_from(["drop", "reorder", "duplicate", "cut", "corrupt", "retype", "retype", "end"])
    ):
        case "drop":
            return before + after
        case "reorder":
            return draw(st.permutations(frames)) if len(frames) <= 12 else [*after, frame, *before]
        case "duplicate":
            return [*before, frame, frame, *after]
        case "cut":
            return [*before, frame[: draw(st.integers(0, len(frame)))], *after]
        case "corrupt":
            return [*before, _with_corrupt_bytes(draw, frame), *after]
        case "retype":
            return [*before, _with_mutated_data(draw, frame), *after]
        case _:
            return [*before, frame[: draw(st.integers(0, len(frame)))]]


@st.composite
def mutated_streams(draw: st.DrawFn, streams: Sequence[bytes]) -> bytes:
    """One of the streams with frames dropped, reordered, repeated, cut, corrupted or retyped inside."""
    frames = frames_of(draw(st.sampled_from(streams)))
    for _ in range(draw(st.integers(1, 3))):
        if frames:
            frames = _damage(draw, frames)
    return b"".join(frames)
