"""`dedupe`: removes a call that repeats an earlier call of the same reply.

A call is a repetition if it has the name and the arguments of the call before it, or the id, name and
arguments of any earlier call. A call waits only while its arguments are equal so far, so a stream delays
only calls that are probably removed. Two calls with one id and different arguments both pass.
"""

from io import StringIO

from dragoman.governance.call_queue import CallQueueStage, HeldCall
from dragoman.governance.interventions import Intervention, Report
from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent


class _SentCall:
    """A call that was sent to the client, with the part of its arguments that is kept."""

    __slots__ = ("_arguments", "call", "is_closed", "is_forgotten", "size")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.is_closed = False
        #: Too long to be kept.
        self.is_forgotten = False
        self._arguments = StringIO()
        self.size = self._arguments.write(call.arguments)

    def add(self, text: str) -> int:
        """Add arguments; return how many characters are kept of them."""
        if self.is_forgotten:
            return 0
        self._arguments.seek(0, 2)
        added = self._arguments.write(text)
        self.size += added
        return added

    def read_part(self, start: int, length: int) -> str:
        self._arguments.seek(start)
        return self._arguments.read(length)

    def forget(self) -> None:
        self.is_forgotten = True
        self._arguments = StringIO()
        self.size = 0


class _Comparison:
    """Compares a held call with a sent one, while the arguments of both still arrive."""

    __slots__ = ("_equal", "detail", "held", "sent")

    def __init__(self, held: HeldCall, sent: _SentCall, detail: str) -> None:
        self.held = held
        self.sent = sent
        self.detail = detail
        #: How many characters are known to be equal.
        self._equal = 0

    def is_same(self) -> bool | None:
        """Whether both calls are the same; None if they are equal so far and not complete."""
        held, sent = self.held, self.sent
        if sent.is_forgotten:
            return False
        shared = min(held.size, sent.size)
        length = shared - self._equal
        if length and held.read_part(self._equal, length) != sent.read_part(self._equal, length):
            return False
        self._equal = shared
        if (held.is_closed and sent.size > shared) or (sent.is_closed and held.size > shared):
            return False
        return True if held.is_closed and sent.is_closed else None


class DedupeStage(CallQueueStage):
    """Removes calls that repeat an earlier call of the reply.

    `limit`: characters of held calls, and of the arguments that are kept of sent calls.
    """

    def __init__(self, report: Report, *, limit: int) -> None:
        super().__init__(limit, watched=frozenset({ArgumentsDelta}))
        self._report = report
        self._last: _SentCall | None = None
        self._by_id: dict[str, _SentCall] = {}
        self._unfinished: dict[int, _SentCall] = {}
        #: Characters that are kept of sent calls.
        self._kept = 0
        #: The comparisons of the first call in the queue, by its number.
        self._comparing: tuple[int, list[_Comparison]] = (-1, [])

    def must_wait(self, call: ToolCall) -> bool:
        return bool(self._find_alike(call))

    def decide(self, held: HeldCall, *, is_full: bool) -> list[ReplyEvent] | None:
        index, comparisons = self._comparing
        if index != held.index:
            comparisons = [_Comparison(held, sent, detail) for sent, detail in self._find_alike(held.call)]
            self._comparing = (held.index, comparisons)
        results = [(comparison.is_same(), comparison.detail) for comparison in comparisons]
        detail = next((detail for is_same, detail in results if is_same), "")
        if detail:
            name = held.call.name
            self._report(Intervention(kind="dedupe", tool=name, detail=(detail,), before=held.size))
            return []
        if any(is_same is None for is_same, _ in results) and not is_full:
            return None
        return held.events

    def note_passed(self, event: ReplyEvent) -> None:
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            call = event.block
            sent = self._last = self._unfinished[event.index] = _SentCall(call)
            if call.id:
                self._by_id.setdefault(call.id, sent)
            self._limit_kept(sent, sent.size)
        elif type(event) is ArgumentsDelta:
            sent = self._unfinished[event.index]
            self._limit_kept(sent, sent.add(event.text))
        elif type(event) is BlockClosed:
            self._unfinished.pop(event.index).is_closed = True

    def _find_alike(self, call: ToolCall) -> list[tuple[_SentCall, str]]:
        """The sent calls that this one could repeat, each with what identifies it."""
        candidates = [(self._by_id.get(call.id) if call.id else None, "id"), (self._last, "arguments")]
        kind = (call.name, call.namespace, call.kind)
        return [
            (sent, detail)
            for sent, detail in candidates
            if sent is not None and (sent.call.name, sent.call.namespace, sent.call.kind) == kind
        ]

    def _limit_kept(self, latest: _SentCall, added: int) -> None:
        self._kept += added
        if self._kept <= self._limit:
            return
        for sent in [*self._by_id.values(), *self._unfinished.values()]:
            if sent is not latest:
                sent.forget()
        if latest.size > self._limit:
            latest.forget()
        self._kept = latest.size
