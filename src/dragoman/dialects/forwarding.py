"""Forwarding: a stream of one dialect passes to a client of the same dialect without being rewritten.

`Forwarding` holds the rules of a dialect and has no state. `forwarded_ending` ends a stream that fails,
`reply_patch` replaces a few members of a reply.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from dragoman.dialects.event_template import EventTemplate
from dragoman.dialects.forwarded_ending import ForwardedEnding
from dragoman.dialects.reply_patch import Changes, ReplyPatch
from dragoman.hub.seal import ENVELOPE_START

if TYPE_CHECKING:
    from dragoman.dialects.dialect import Dialect

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode
_decode = msgspec.json.decode


#: Bytes of events that are examined together.
SLICE = 1024


class RequestPeek(msgspec.Struct, frozen=True):
    """What forwarding must know of a request that is not read otherwise."""

    model: str
    stream: bool
    #: The client's stream must not contain the usage, although the upstream is asked for it.
    hides_usage: bool = False


#: Content that rules and estimates ask about. `uncounted`: media and tools that a message declares, whose
#: tokens no length of a text bounds.
ContentName = Literal["images", "web_search", "uncounted"]

#: The members of a request's body, not decoded.
Members = Mapping[str, msgspec.Raw]


def split_members(body: bytes) -> Members | None:
    """The members of a JSON object; None if the body is none."""
    try:
        return _read_members(body)
    except (ValueError, RecursionError):
        return None


def peek_members(members: Members) -> tuple[str, bool, object] | None:
    """The members `model`, `stream` and `stream_options`; None if the dialect's reader must judge them."""
    try:
        model = _decode(members["model"]) if "model" in members else ""
        stream = _decode(members["stream"]) if "stream" in members else False
        options = _decode(members["stream_options"]) if "stream_options" in members else None
    except (ValueError, RecursionError):
        return None
    return (model, stream, options) if isinstance(model, str) and isinstance(stream, bool) else None


def replace_members(members: Members, changes: Changes) -> bytes:
    """The JSON object with other values for these members. The bytes of all other values stay the same."""
    return _encode({**members, **{name: msgspec.Raw(value) for name, value in changes.items()}})


def compile_delta_pattern(name: bytes) -> re.Pattern[bytes]:
    """The pattern of events with this name, one after the other. `name` is a pattern too.

    Another event may contain such lines, but not begin with them.
    """
    return re.compile(rb"(?:\A|(?<=\n\n))(?:event: " + name + rb"\ndata: [^\n]*+\n\n)++")


class Forwarding:
    """The rules of one dialect. Subclasses override what differs; the defaults forward everything."""

    #: Bytes of the event that closes a complete stream, and that event, for upstreams that leave it out.
    closing_mark = b""
    closing_event = b""
    #: The member of an event's payload that holds the object with the reply's id and model.
    reply_path = ""
    #: Bytes that every event with that object contains.
    reply_mark = b'"model"'
    model_member = "model"
    #: Every event repeats the model's name, and that member's name can occur nowhere else in it.
    repeats_model = False
    #: How an envelope with foreign seals begins. A history that contains one cannot be forwarded.
    envelope_mark = ENVELOPE_START.encode()
    #: Bytes of content that may change a request whatever its facts are: items that change settings, seals of
    #: other vendors in a field of this dialect.
    special_mark = b""
    #: Bytes that are in every conversation with content that a fact is about. A fact without bytes may be
    #: about any conversation.
    content_marks: ClassVar[Mapping[str, bytes]] = {}
    #: Events that are deltas by their name alone, one or more of them. They go to the client unchanged.
    deltas: ClassVar[re.Pattern[bytes] | None] = None
    #: Words of which one is in every body with such content (`pipeline.body_search`). Content without an
    #: entry may be in any body.
    content_words: ClassVar[Mapping[ContentName, tuple[bytes, ...]]] = {}
    #: Tools may have other names than those in the body.
    renames_tools = False
    #: Whether `find_template` finds templates.
    has_templates = False

    def peek(self, members: Members) -> RequestPeek | None:
        """The model and `stream` of a request; None if the dialect's reader must judge the body."""
        found = peek_members(members)
        return RequestPeek(found[0], found[1]) if found else None

    def rename_model(self, body: bytes, model: str, members: Members | None = None) -> bytes:
        """The request for another model; the bytes of all other values stay the same.

        `members`: those of the body, if they are known.
        """
        known = _read_members(body) if members is None else members
        return replace_members(known, {"model": _encode(model)})

    def request_usage(self, body: bytes) -> bytes:
        """The request, which also asks for the usage, where the API needs to be asked."""
        return body

    def is_delta_run(self, events: bytes) -> bool:
        """Whether these whole events are deltas only, so that reading them would give nothing to record.

        A quote or a line end inside a JSON string is escaped, so no text of a model can imitate the marks.
        """
        return False

    def find_template(self, event: bytes) -> EventTemplate | None:
        """The template of a run's event around its longest text, so that later events need no search.

        None if it has no text. The events of a template answer if this one does.
        """
        return None

    def drop_deltas(self, events: bytes) -> bytes:
        """These whole events without deltas. Deltas between other events may stay."""
        if self.deltas is not None:
            return self.deltas.sub(b"", events)
        if self.is_delta_run(events):
            return b""
        middle = events.find(b"\n\n", len(events) // 2) + 2 if len(events) > SLICE else 0
        if 2 <= middle < len(events):
            return self.drop_deltas(events[:middle]) + self.drop_deltas(events[middle:])
        return events

    def may_answer(self, events: bytes) -> bool:
        """Whether a run of deltas may contain more than reasoning.

        Called until the reply has an answer. Such a run is read: a reply that ends without one has failed.
        """
        return True

    def select(self, events: bytes, *, hides_usage: bool) -> bytes:
        """The events that a client of this dialect may receive."""
        return events

    def add_closing_event(self, last: bytes) -> bytes:
        """The closing event, if the `last` events of a complete stream lack it."""
        return b"" if last.find(self.closing_mark) >= 0 else self.closing_event

    def build_ending(self, dialect: "Dialect") -> ForwardedEnding:
        return ForwardedEnding(dialect)

    def build_patch(self, changes: Changes, members: Changes) -> ReplyPatch:
        """`changes` replace members of the reply's object that are present, `members` are always set."""
        return ReplyPatch(self.reply_path, self.reply_mark, changes, members, is_repeated=self.repeats_model)
