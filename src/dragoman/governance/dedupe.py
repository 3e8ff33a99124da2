"""Calls that come twice are left out the second time.

A call is doubled if it has the name and the arguments of the call before it, or the id, name and arguments of
any earlier one. A call waits only while it says exactly what the other one said, so in a stream the delay is
that of a call which is about to be dropped. Everything else passes, also two calls of one id that differ.
"""

from io import StringIO

from dragoman.governance.call_queue import CallQueueStage, HeldCall, Outcome
from dragoman.governance.interventions import Intervention, Report
from dragoman.hub.content import ToolCall
from dragoman.hub.events import ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent


class _Earlier:
    """A call that the client gets, remembered as it goes by."""

    __slots__ = ("_arguments", "call", "is_closed", "is_forgotten", "size")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.is_closed = False
        #: Too long to be remembered.
        self.is_forgotten = False
        self._arguments = StringIO()
        self.size = self._arguments.write(call.arguments)

    def add(self, text: str) -> None:
        if not self.is_forgotten:
            self._arguments.seek(0, 2)
            self.size += self._arguments.write(text)

    def part(self, start: int, length: int) -> str:
        self._arguments.seek(start)
        return self._arguments.read(length)

    def forget(self) -> None:
        self.is_forgotten = True
        self._arguments = StringIO()
        self.size = 0


class _Comparison:
    """How far a waiting call repeats an earlier one."""

    __slots__ = ("_agreed", "earlier", "held", "why")

    def __init__(self, held: HeldCall, earlier: _Earlier, why: str) -> None:
        self.held = held
        self.earlier = earlier
        self.why = why
        self._agreed = 0

    def verdict(self) -> bool | None:
        """True: the same. False: different. None: the same so far."""
        held, earlier = self.held, self.earlier
        if earlier.is_forgotten:
            return False
        shared = min(held.size, earlier.size)
        length = shared - self._agreed
        if length and held.part(self._agreed, length) != earlier.part(self._agreed, length):
            return False
        self._agreed = shared
        if (held.is_closed and earlier.size > shared) or (earlier.is_closed and held.size > shared):
            return False
        return True if held.is_closed and earlier.is_closed else None


class DedupeStage(CallQueueStage):
    def __init__(self, report: Report, *, limit: int) -> None:
        super().__init__(_Doubles(report, limit), limit)


class _Doubles:
    wants: frozenset[type] = frozenset({ArgumentsDelta})

    def __init__(self, report: Report, limit: int) -> None:
        self._report = report
        self._limit = limit
        self._last: _Earlier | None = None
        self._by_id: dict[str, _Earlier] = {}
        self._open: dict[int, _Earlier] = {}
        self._remembered = 0
        #: The comparisons of the call that is waiting in front.
        self._comparing: tuple[int, list[_Comparison]] = (-1, [])

    def waits(self, call: ToolCall) -> bool:
        return any(_is_alike(call, earlier) for earlier, _ in self._rivals(call))

    def _rivals(self, call: ToolCall) -> list[tuple[_Earlier, str]]:
        rivals = []
        if call.id and call.id in self._by_id:
            rivals.append((self._by_id[call.id], "id"))
        if self._last is not None:
            rivals.append((self._last, "arguments"))
        return rivals

    def outcome(self, held: HeldCall, *, is_full: bool) -> Outcome | None:
        verdicts = [(comparison.verdict(), comparison.why) for comparison in self._comparisons(held)]
        same = next((why for verdict, why in verdicts if verdict), "")
        if same:
            self._tell(held.call, same, held.size)
            return []
        if any(verdict is None for verdict, _ in verdicts) and not is_full:
            return None
        return held.events

    def _comparisons(self, held: HeldCall) -> list[_Comparison]:
        index, comparisons = self._comparing
        if index != held.index:
            comparisons = [
                _Comparison(held, earlier, why)
                for earlier, why in self._rivals(held.call)
                if _is_alike(held.call, earlier)
            ]
            self._comparing = (held.index, comparisons)
        return comparisons

    def passed(self, event: ReplyEvent) -> None:
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            self._remember(event.index, event.block)
        elif type(event) is ArgumentsDelta:
            earlier = self._open[event.index]
            before = earlier.size
            earlier.add(event.text)
            self._keep_within_limit(earlier, earlier.size - before)
        elif type(event) is BlockClosed:
            self._open.pop(event.index).is_closed = True

    def _remember(self, index: int, call: ToolCall) -> None:
        earlier = self._last = self._open[index] = _Earlier(call)
        if call.id:
            self._by_id.setdefault(call.id, earlier)
        self._keep_within_limit(earlier, earlier.size)

    def _keep_within_limit(self, latest: _Earlier, added: int) -> None:
        self._remembered += added
        if self._remembered <= self._limit:
            return
        for earlier in [*self._by_id.values(), *self._open.values()]:
            if earlier is not latest:
                earlier.forget()
        if latest.size > self._limit:
            latest.forget()
        self._remembered = latest.size

    def _tell(self, call: ToolCall, why: str, size: int) -> None:
        self._report(Intervention(kind="dedupe", tool=call.name, detail=(why,), before=size, after=0))


def _is_alike(call: ToolCall, earlier: _Earlier) -> bool:
    other = earlier.call
    return (call.name, call.namespace, call.kind) == (other.name, other.namespace, other.kind)
