"""Arguments for clients that read them as an object: the stage lets only one strict JSON object through.

Characters are sent at once as long as they continue such an object. Everything from the first other character
on is held back. Sent characters cannot be recalled, so the end depends on what was sent:

- nothing of a member: the client gets an object whose only member contains the raw text.
- a part of the members: the arguments stay incomplete, and the reply ends as cut short, for any cause of its
  upstream. Completing them could run half a command. The same holds for arguments that end too early.
- a whole object, with text after it: brackets too many are left out. With any other text the reply fails,
  because the object may be a part of what the model meant.
"""

from dragoman.fit.client_tools import INPUT
from dragoman.fit.editing import replace
from dragoman.hub.blocks import ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    EVENT_KINDS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    DeltaRun,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
)
from dragoman.hub.loss import Losses
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import JsonPrefix, choose_member

AMBIGUOUS = Failure(
    kind="server",
    status=502,
    code="malformed_arguments",
    message="the model wrote more than one JSON object as the arguments of a tool",
)
#: The causes that state that a reply was cut short. With any other, clients run the calls of the reply.
CUTTING_CAUSES = frozenset(("length", "context_window", "refusal", "content_filter"))
#: Characters that models write after an object and that mean nothing.
_HARMLESS = " \t\r\n}]`"


class _CallArguments:
    """The arguments of one call while they arrive."""

    __slots__ = ("_blank", "_has_half_members", "_is_invalid", "_pieces", "_prefix", "_valid")

    def __init__(self) -> None:
        self._prefix = JsonPrefix()
        self._pieces: list[str] = []
        #: White space at the beginning. It is held back: arguments of white space alone are no object.
        self._blank = ""
        self._is_invalid = False
        #: A part of the members was sent before the arguments turned out invalid.
        self._has_half_members = False
        #: How many characters came before the first invalid one.
        self._valid = 0

    def feed(self, text: str) -> str:
        """The characters that may be sent now."""
        self._pieces.append(text)
        if self._is_invalid:
            return ""
        if not self._blank and self._prefix.kind == "object" and self._prefix.is_string_continuation(text):
            return text
        accepted = self._prefix.feed(text)
        kind = self._prefix.kind
        if kind != "object":
            self._is_invalid = bool(kind) or self._prefix.is_broken
            self._blank += text
            return ""
        self._is_invalid = self._prefix.is_broken
        if self._is_invalid:
            self._valid = sum(map(len, self._pieces)) - len(text) + accepted
            sent = "".join(self._pieces)[: self._valid]
            self._has_half_members = not self._prefix.is_complete and sent.strip() != "{"
        ready = text if accepted == len(text) else text[:accepted]
        if self._blank:
            ready, self._blank = self._blank + ready, ""
        return ready

    def feed_run(self, texts: list[str]) -> bool:
        """Add several texts if they may all be sent now, as they are. False: nothing was added."""
        if self._is_invalid or self._blank or self._prefix.kind != "object":
            return False
        text = "".join(texts)
        if not self._prefix.is_string_continuation(text):
            prefix = self._prefix.copy()
            if prefix.feed(text) != len(text):
                return False
            self._prefix = prefix
        self._pieces += texts
        return True

    @property
    def is_incomplete(self) -> bool:
        return self._has_half_members or not (
            self._is_invalid or self._prefix.is_empty or self._prefix.is_complete
        )

    @property
    def is_ambiguous(self) -> bool:
        """Whether the object that was sent may be a part of what the model meant: other text follows it."""
        if not (self._is_invalid and self._prefix.kind == "object" and self._prefix.is_complete):
            return False
        return bool("".join(self._pieces)[self._valid :].strip(_HARMLESS))

    def finish(self, losses: Losses) -> str:
        """The characters that complete the object."""
        if not self._is_invalid:
            return ""
        if self._has_half_members:
            losses.add("", "the arguments of a call are no JSON, so the call was left unfinished")
            return ""
        raw = "".join(self._pieces)
        if raw.strip() in ("", "null"):
            return ""
        if self._prefix.kind != "object":
            self._prefix = JsonPrefix()
        elif self._prefix.is_complete:
            losses.add("", "what followed the arguments of a call was left out")
            return ""
        member = choose_member(raw)
        losses.add("", f"the arguments of a call are no JSON object and stand in {member!r}")
        return self._prefix.closing_with(member, encode(_replace_surrogates(raw)).decode())


class ArgumentsStage:
    """Makes the arguments of every call one JSON object; see the module."""

    __slots__ = ("_calls", "_is_ambiguous", "_is_incomplete", "_losses", "_texts")

    unchanged_kinds = EVENT_KINDS - {ArgumentsDelta, BlockOpened, BlockClosed, ReplyFinished}

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._calls: dict[int, _CallArguments] = {}
        #: Open calls whose free text is wrapped in an object.
        self._texts: set[int] = set()
        self._is_incomplete = False
        self._is_ambiguous = False

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is ArgumentsDelta:
            return self._continue(event)
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            return self._open(event, event.block)
        if type(event) is BlockClosed:
            return [*self._finish(event.index), event]
        if type(event) is ReplyFinished and self._is_ambiguous:
            return [ReplyFailed("failed", AMBIGUOUS)]
        if type(event) is ReplyFinished and self._is_incomplete and event.cause not in CUTTING_CAUSES:
            self._losses.add("", "the arguments of a call are incomplete, so the reply ends as truncated")
            return [replace(event, cause="length", raw_cause="", stop_sequence=None)]
        return [event]

    def feed_run(self, run: DeltaRun) -> list[str] | None:
        """The run as it is, if all of it may be sent now; else None, and nothing was taken."""
        arguments = self._calls.get(run.index)
        return run.texts if arguments is not None and arguments.feed_run(run.texts) else None

    def _continue(self, event: ArgumentsDelta) -> list[ReplyEvent]:
        if event.index in self._texts:
            return _delta(event.index, _escape(event.text))
        ready = self._calls[event.index].feed(event.text)
        return [event] if ready == event.text else _delta(event.index, ready)

    def _open(self, event: BlockOpened, call: ToolCall) -> list[ReplyEvent]:
        beginning = call.arguments
        if call.kind == "custom":
            self._texts.add(event.index)
            opened = BlockOpened(event.index, replace(call, kind="function", arguments=""))
            wrapped = f'{{"{INPUT}":"{_escape(beginning)}'
            return [opened, ArgumentsDelta(event.index, wrapped)]
        arguments = self._calls[event.index] = _CallArguments()
        if not beginning:
            return [event]
        opened = BlockOpened(event.index, replace(call, arguments=""))
        return [opened, *_delta(event.index, arguments.feed(beginning))]

    def _finish(self, index: int) -> list[ReplyEvent]:
        if index in self._texts:
            self._texts.discard(index)
            return [ArgumentsDelta(index, '"}')]
        arguments = self._calls.pop(index, None)
        if arguments is None:
            return []
        self._is_incomplete |= arguments.is_incomplete
        self._is_ambiguous |= arguments.is_ambiguous
        return _delta(index, arguments.finish(self._losses))


def _escape(text: str) -> str:
    """The text as the inside of a JSON string."""
    return encode(_replace_surrogates(text)).decode()[1:-1]


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON in UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _delta(index: int, text: str) -> list[ReplyEvent]:
    return [ArgumentsDelta(index, text)] if text else []
