"""Arguments for clients that read them as an object: never anything but one strict JSON object.

Characters go out live as long as they keep the whole a beginning of such an object. From the first one
that does not, everything is held; at the end the object is completed with a member that shows the raw
text, because what went out cannot be recalled and what came must not vanish.

Arguments that merely break off stay broken off: completing them could make half a command run. The same goes
for a string that deviates, since its beginning is out. A reply that holds such a call did not end for it,
whatever its upstream says; it was cut short.
"""

from dragoman.fit.editing import replace
from dragoman.fit.tools import INPUT
from dragoman.hub.content import ToolCall
from dragoman.hub.events import DELTAS, ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent, ReplyFinished
from dragoman.hub.loss import Losses
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import JsonPrefix, choose_member


class _Arguments:
    """One call's arguments as they come."""

    __slots__ = ("_blank", "_deviant", "_half", "_pieces", "_prefix")

    def __init__(self) -> None:
        self._prefix = JsonPrefix()
        self._pieces: list[str] = []
        #: White space that came before anything else: it may be all there is.
        self._blank = ""
        self._deviant = False
        #: Half a string went out that cannot go on.
        self._half = False

    def feed(self, text: str) -> str:
        """What of this may go out."""
        self._pieces.append(text)
        if self._deviant:
            return ""
        if not self._blank and self._prefix.kind == "object" and self._prefix.is_string_continuation(text):
            return text
        accepted = self._prefix.feed(text)
        kind = self._prefix.kind
        if kind != "object":
            self._deviant = bool(kind) or self._prefix.is_broken
            self._blank += text
            return ""
        self._deviant = self._prefix.is_broken
        self._half = self._deviant and self._prefix.is_in_string
        ready = text if accepted == len(text) else text[:accepted]
        if self._blank:
            ready, self._blank = self._blank + ready, ""
        return ready

    @property
    def broken_off(self) -> bool:
        return self._half or not (self._deviant or self._prefix.is_empty or self._prefix.is_complete)

    def finish(self, losses: Losses) -> str:
        """What completes the object."""
        if not self._deviant:
            return ""
        if self._half:
            losses.add("", "a string in the arguments of a call is no JSON, so the call was left unfinished")
            return ""
        raw = "".join(self._pieces)
        if raw.strip() == "null":
            return ""
        if self._prefix.kind != "object":
            self._prefix = JsonPrefix()
        elif self._prefix.is_complete:
            losses.add("", "what followed the arguments of a call was left out")
            return ""
        member = choose_member(raw)
        losses.add("", f"the arguments of a call are no JSON object and stand in {member!r}")
        return self._prefix.closing_with(member, encode(_sound(raw)).decode())


class ArgumentsStage:
    __slots__ = ("_broken_off", "_calls", "_losses", "_texts")

    passes = DELTAS - {ArgumentsDelta}

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._calls: dict[int, _Arguments] = {}
        #: Calls whose free text is being wrapped.
        self._texts: set[int] = set()
        self._broken_off = False

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is ArgumentsDelta:
            return self._more(event)
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            return self._opened(event, event.block)
        if type(event) is BlockClosed:
            return [*self._ending(event.index), event]
        if type(event) is ReplyFinished and event.cause == "tool_calls" and self._broken_off:
            self._losses.add("", "the arguments of a call broke off, so the reply is told as cut short")
            return [replace(event, cause="length", raw_cause="")]
        return [event]

    def _more(self, event: ArgumentsDelta) -> list[ReplyEvent]:
        if event.index in self._texts:
            return _delta(event.index, _escaped(event.text))
        ready = self._calls[event.index].feed(event.text)
        return [event] if ready == event.text else _delta(event.index, ready)

    def _opened(self, event: BlockOpened, call: ToolCall) -> list[ReplyEvent]:
        begun = call.arguments
        if call.kind == "custom":
            self._texts.add(event.index)
            opened = BlockOpened(event.index, replace(call, kind="function", arguments=""))
            beginning = f'{{"{INPUT}":"{_escaped(begun)}'
            return [opened, ArgumentsDelta(event.index, beginning)]
        arguments = self._calls[event.index] = _Arguments()
        if not begun:
            return [event]
        opened = BlockOpened(event.index, replace(call, arguments=""))
        return [opened, *_delta(event.index, arguments.feed(begun))]

    def _ending(self, index: int) -> list[ReplyEvent]:
        if index in self._texts:
            self._texts.discard(index)
            return [ArgumentsDelta(index, '"}')]
        arguments = self._calls.pop(index, None)
        if arguments is None:
            return []
        self._broken_off |= arguments.broken_off
        return _delta(index, arguments.finish(self._losses))


def _escaped(text: str) -> str:
    return encode(_sound(text)).decode()[1:-1]


def _sound(text: str) -> str:
    """The text without halves of characters, which JSON cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _delta(index: int, text: str) -> list[ReplyEvent]:
    return [ArgumentsDelta(index, text)] if text else []
