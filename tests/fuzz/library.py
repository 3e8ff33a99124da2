"""One run of the library with a damaged reply or request, and what must hold for it.

A `Run` is made of a seed and a number alone. `find_faults` runs it; each fault has a kind:

- `exception`: an error outside the tree of `DragomanError`.
- `illegal stream`: the client's stream breaks the rules of its dialect.
- `false success`: the upstream's bytes have no end marker, and the client's reply is no failure.
- `wrong call`: a finished reply has a call whose arguments the upstream did not send.
- `depends on cuts`: the same bytes in other pieces give another stream.
- `unreadable request`: the target's own reader refuses the translated request.
- `hang`: more processor time than a run may take.
"""

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from random import Random
from types import FrameType
from typing import Literal

import msgspec

from dragoman import DragomanError, StreamTranslator, translate_error, translate_reply, translate_request
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.dialects.request_rules import check_rules
from dragoman.governance.settings import Governance
from dragoman.hub.blocks import ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.pipeline.bodies import read_object
from dragoman.wire.sse import encode_sse
from tests.fuzz.corpus import DIALECTS, ClientRequest, Corpus
from tests.fuzz.mutations import spoil_stream, spoiled_bytes, spoiled_json
from tests.fuzz.outcomes import Outcome, find_members, has_end, parse, read_outcome
from tests.pipeline.forwarding import ForwardedBytes
from tests.sse import read_frames

Kind = Literal["stream", "forward", "whole", "request", "error"]
KINDS: tuple[Kind, ...] = (*("stream",) * 11, *("whole",) * 4, *("request",) * 4, "error")
#: HTTP statuses of errors; some are none.
STATUSES = (0, 200, 301, 400, 401, 403, 404, 408, 413, 429, 499, 500, 502, 503, 529, 600, 999)
#: Seconds of processor time. A run takes a few milliseconds, so only a bug comes here.
PATIENCE = 20.0
LOST = Failure(kind="overloaded", status=502, message="the connection to the upstream was lost")
MAX_REDUCTIONS = 400


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one run: who sends what to whom."""

    name: str
    kind: Kind
    source: str
    target: str
    data: bytes
    request: ClientRequest | None = None
    governance: Governance | None = None
    #: Where the network cuts the bytes.
    cuts: tuple[int, ...] = ()
    #: The connection was reset after the last byte.
    is_reset: bool = False
    #: The HTTP status of an error.
    status: int = 0

    @property
    def pieces(self) -> list[bytes]:
        edges = [0, *self.cuts, len(self.data)]
        return [self.data[start:end] for start, end in pairwise(edges)]


class Fault(msgspec.Struct, frozen=True):
    kind: str
    detail: str


class HangError(BaseException):
    """The run took too much processor time. No handler of ordinary errors catches it."""


@cache
def load_corpus() -> Corpus:
    return Corpus()


def build_run(seed: int, number: int) -> Run:
    """The run with this number; the same for the same seed."""
    dice = Random(f"{seed}-{number}")
    # Every pair of dialects in turn.
    run = Run(
        name=f"--seed {seed} --only {number}",
        kind=dice.choice(KINDS),
        source=DIALECTS[number % 4],
        target=DIALECTS[number // 4 % 4],
        data=b"",
        governance=dice.choice(load_corpus().governance) if dice.random() < 0.4 else None,
    )
    return msgspec.structs.replace(run, **_INPUTS[run.kind](dice, load_corpus(), run))


def _choose_stream(dice: Random, corpus: Corpus, run: Run) -> Json:
    streams = corpus.streams[run.source if dice.random() < 0.98 else dice.choice(DIALECTS)]
    data = spoil_stream(dice, dice.choice(streams), dice.choice(streams))
    cuts = sorted(dice.randint(0, len(data)) for _ in range(dice.choice((0, 0, 1, 2, 8))))
    is_forwarded = run.source == run.target and dice.random() < 0.4
    return {
        "kind": "forward" if is_forwarded else "stream",
        "data": data,
        "request": _choose_request(dice, corpus.requests[run.target]),
        "cuts": tuple(cuts),
        "is_reset": dice.random() < 0.05,
    }


def _choose_whole(dice: Random, corpus: Corpus, run: Run) -> Json:
    return {
        "data": _spoil_body(dice, dice.choice(corpus.replies[run.source])),
        "request": _choose_request(dice, corpus.requests[run.target]),
    }


def _choose_client_request(dice: Random, corpus: Corpus, run: Run) -> Json:
    request = dice.choice(corpus.requests[run.source])
    return {"data": _spoil_body(dice, request.body), "request": request}


def _choose_error(dice: Random, corpus: Corpus, run: Run) -> Json:
    return {
        "data": _spoil_body(dice, dice.choice(corpus.errors[run.source])),
        "status": dice.choice(STATUSES),
    }


def _spoil_body(dice: Random, body: bytes) -> bytes:
    return spoiled_json(dice, body) if dice.random() < 0.85 else spoiled_bytes(dice, body)


_INPUTS: dict[Kind, Callable[[Random, Corpus, Run], Json]] = {
    "stream": _choose_stream,
    "whole": _choose_whole,
    "request": _choose_client_request,
    "error": _choose_error,
}


def _choose_request(dice: Random, requests: list[ClientRequest]) -> ClientRequest | None:
    """Mostly the usual request, which is quick to read."""
    drawn = dice.random()
    if drawn < 0.1:
        return None
    return requests[0] if drawn < 0.9 else dice.choice(requests)


def find_faults(run: Run) -> list[Fault]:
    """Everything that is wrong with one run; usually nothing."""
    try:
        with limit_time():
            return _CHECKS[run.kind](run)
    except HangError:
        return [Fault("hang", traceback.format_exc(limit=-6))]
    except Exception as error:
        return [Fault("exception", f"{error!r}\n{traceback.format_exc(limit=-8)}")]


@contextmanager
def limit_time() -> Iterator[None]:
    """Raise `HangError` after `PATIENCE` seconds of this process, however busy the machine is."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _start_translator(run: Run) -> StreamTranslator:
    asked = run.request
    return StreamTranslator(
        source=run.source,
        target=run.target,
        request=asked.body if asked else None,
        model=asked.model if asked else "",
        ids=IdSource("fuzz"),
        created=1,
        governance=run.governance,
    )


def _translate_stream(run: Run, translator: StreamTranslator, pieces: list[bytes]) -> bytes:
    output = [translator.feed(piece) for piece in pieces]
    if run.is_reset:
        output.append(translator.fail(LOST, "truncated"))
    output.append(translator.close())
    return b"".join(output)


def _check_stream_run(run: Run) -> list[Fault]:
    try:
        translator = _start_translator(run)
    except DragomanError:
        return []  # The request cannot be governed, so that no reply to it comes.
    if translator.is_forwarded:
        return []
    stream = _translate_stream(run, translator, run.pieces)
    faults = _check_legal(run, stream)
    outcome = read_outcome(run.target, stream)
    if outcome.ending in ("finished", "short") and not has_end(run.source, run.data):
        faults.append(Fault("false success", f"no end marker came, and the reply is {outcome.ending}"))
    if (outcome.ending == "failed") != (translator.failure is not None):
        faults.append(
            Fault("false success", f"the stream is {outcome.ending}, the record has {translator.failure}")
        )
    faults += _check_calls(run, outcome)
    if run.cuts and not faults and _translate_stream(run, _start_translator(run), [run.data]) != stream:
        faults.append(Fault("depends on cuts", f"cut at {run.cuts}"))
    return faults


#: Violations that a vendor's own values and lists cause.
_VALUES = ("unknown type", "has a wrong value", "an index of ", "message_delta.index")


def _check_legal(run: Run, stream: bytes) -> list[Fault]:
    """The first violation of the client's stream. Clients get the values of their own vendor as they came."""
    own = run.source == run.target
    return [
        Fault("illegal stream", f"frame {one.frame}: {one.message}")
        for one in dialect_named(run.target).check_stream(stream)
        if not (own and any(text in one.message for text in _VALUES))
    ][:1]


def _check_calls(run: Run, outcome: Outcome) -> list[Fault]:
    """A call of a finished reply is visibly broken, or has the arguments that the upstream sent."""
    if outcome.ending != "finished" or not outcome.calls:
        return []
    values = [parse(text or "{}") for text in outcome.calls]
    if dialect_named(run.target).object_arguments and not all(isinstance(one, dict) for one in values):
        return [Fault("wrong call", "a finished call without an object of arguments")]
    if run.governance is not None:
        return []
    sent = _read_sent_arguments(run)
    if sent is None:
        return []
    return [
        Fault("wrong call", f"the upstream did not send the arguments of call {number}")
        for number, value in enumerate(values)
        if isinstance(value, dict) and value not in sent and [*value.values()] not in sent
    ]


def _read_sent_arguments(run: Run) -> list[object] | None:
    """The arguments of the upstream's calls; None if there are calls other than those of functions.

    A text that is no object is given in a list: clients that need an object get it as the only member of one.
    """
    reader = dialect_named(run.source).stream_reader(UpstreamContext(issuer=run.source, ids=IdSource("fuzz")))
    reply = fold([*reader.feed(run.data), *reader.close()])
    calls = [block for block in reply.blocks if isinstance(block, ToolCall)]
    if any(call.kind != "function" for call in calls):
        return None
    return [_read_sent_object(call.arguments) for call in calls]


def _read_sent_object(text: str) -> dict[str, object] | list[str]:
    """The object of arguments, also if superfluous brackets or a fence follow it; else the text in a list."""
    end = len(text)
    while end and text[end - 1] in "}]` \t\r\n":
        value = parse(text[:end])
        if isinstance(value, dict):
            return value
        end -= 1
    return [text] if text.strip() else {}


def _check_whole_run(run: Run) -> list[Fault]:
    asked = run.request
    try:
        translation = translate_reply(
            run.data,
            source=run.source,
            target=run.target,
            request=asked.body if asked else None,
            model=asked.model if asked else "",
            ids=IdSource("fuzz"),
            created=1,
            governance=run.governance,
        )
    except DragomanError:
        return []
    if not isinstance(parse(run.data), dict):
        return [Fault("false success", "a body that is no JSON object gave a reply")]
    stream = encode_sse(
        dialect_named(run.target).explode(msgspec.json.decode(msgspec.json.encode(translation.body)))
    )
    source = encode_sse(dialect_named(run.source).explode(read_object(run.data)))
    return _check_calls(msgspec.structs.replace(run, data=source), read_outcome(run.target, stream))


def _check_request_run(run: Run) -> list[Fault]:
    model = run.request.model if run.request else ""
    try:
        translation = translate_request(
            run.data,
            source=run.source,
            target=run.target,
            model=model,
            stream=True,
            governance=run.governance,
        )
    except DragomanError as error:
        if not 400 <= error.status < 500:
            return [Fault("exception", f"a client's request is answered with {error.status}: {error!r}")]
        dialect_named(run.source).write_error(error.failure)
        return []
    body = msgspec.json.decode(msgspec.json.encode(translation.body))
    try:
        written = dialect_named(run.target)
        request = written.read_request(body, Losses(), model=translation.model or "m", stream=True)
        # A request in the target's own dialect is sent as it came, and the vendor refuses it itself.
        check_rules(request, () if run.source == run.target else written.request_rules)
    except DragomanError as error:
        return [Fault("unreadable request", str(error))]
    return []


def _check_error_run(run: Run) -> list[Fault]:
    status, headers, body = translate_error(
        run.status, {"retry-after": str(run.status)}, run.data, source=run.source, target=run.target
    )
    msgspec.json.encode(body)
    is_header = all(value.isprintable() for value in headers.values())
    if not 400 <= status < 600 or not is_header:
        return [Fault("false success", f"an error became status {status} with headers {headers}")]
    return []


def _check_forward_run(run: Run) -> list[Fault]:
    """A forwarded stream keeps what the upstream sent, so that its ending and what is added are checked.

    The bytes come in the pieces of the run, in one piece, and event by event: all three end alike.
    """
    forwarded, stream = _forward(run.target, run.pieces, is_reset=run.is_reset)
    failure = forwarded.tally.failure
    if failure is None and not has_end(run.source, run.data):
        return [Fault("false success", "no end marker came, and the forwarded reply is finished")]
    if failure is None and not has_end(run.target, stream):
        return [Fault("false success", "the forwarded reply is finished, and the client got no end marker")]
    faults = _check_added(run, forwarded, stream)
    for name, pieces in (("in one piece", [run.data]), ("event by event", _split_events(run.data))):
        other_forwarded, other = _forward(run.target, pieces, is_reset=run.is_reset)
        other_failure = other_forwarded.tally.failure
        # What follows the end marker may be passed on or not. The ending that we write for a failed reply
        # repeats numbers of the last events, which a damaged stream may lack.
        payloads, others = ([one.data.strip() for one in read_frames(each)] for each in (stream, other))
        shorter = min(len(payloads), len(others))
        is_equal = failure is not None or payloads[:shorter] == others[:shorter]
        if failure != other_failure or not is_equal:
            faults.append(Fault("depends on cuts", f"cut at {run.cuts}: {failure}; {name}: {other_failure}"))
    return faults


def _check_added(run: Run, forwarded: ForwardedBytes, stream: bytes) -> list[Fault]:
    """What the gateway adds to a legal beginning of a stream keeps it legal.

    Before the first content the client gets an HTTP error instead. The checkers of some dialects read no
    line end but LF, and further answers to one request (`candidateCount`) have no ending of ours.
    """
    check = dialect_named(run.target).check_stream
    is_alone = run.source != "gemini" or not any(index for index in _find_members(run.data, "index"))
    is_judged = forwarded.tally.has_content and b"\r" not in run.data and is_alone
    begun = run.data.strip() + b"\n\n"
    if not is_judged or any("the stream ends without" not in one.message for one in check(begun)):
        return []
    return [
        Fault("illegal stream", f"frame {one.frame} of the forwarded stream: {one.message}")
        for one in check(stream)
    ][:1]


def _find_members(data: bytes, name: str) -> Iterator[object]:
    return (value for frame in read_frames(data) for value in find_members(parse(frame.data), name))


def _split_events(data: bytes) -> list[bytes]:
    *events, rest = data.split(b"\n\n")
    return [*(event + b"\n\n" for event in events), *([rest] if rest else [])]


def _forward(dialect: str, pieces: list[bytes], *, is_reset: bool) -> tuple[ForwardedBytes, bytes]:
    """The forwarded reply and its bytes."""
    forwarded = ForwardedBytes(dialect)
    output = [forwarded.feed(piece) for piece in pieces if not forwarded.ended or forwarded.trails]
    if is_reset and not forwarded.ended:
        output.append(forwarded.fail(ReplyFailed("truncated", LOST)))
    elif not forwarded.ended or forwarded.trails:
        output.append(forwarded.close())
    return forwarded, b"".join(output)


_CHECKS: dict[Kind, Callable[[Run], list[Fault]]] = {
    "stream": _check_stream_run,
    "forward": _check_forward_run,
    "whole": _check_whole_run,
    "request": _check_request_run,
    "error": _check_error_run,
}


def minimise(run: Run, kind: str) -> Run:
    """A shorter input with a fault of the same kind: events first, then bytes, are left out."""
    budget = MAX_REDUCTIONS
    simple = msgspec.structs.replace(run, cuts=()) if kind != "depends on cuts" else run
    best = simple if _fails(simple, kind) else run
    for separator in (b"\n\n", b"\n", b",", b""):
        size = _count_parts(best.data, separator) // 2
        while size >= 1 and budget > 0:
            parts = _split(best.data, separator)
            start = 0
            while start < len(parts) and budget > 0:
                data = separator.join(parts[:start] + parts[start + size :])
                shorter = msgspec.structs.replace(
                    best, data=data, cuts=tuple(c for c in best.cuts if c <= len(data))
                )
                budget -= 1
                if _fails(shorter, kind):
                    best, parts = shorter, parts[:start] + parts[start + size :]
                else:
                    start += size
            size //= 2
    return best


def _fails(run: Run, kind: str) -> bool:
    return any(fault.kind == kind for fault in find_faults(run))


def _split(data: bytes, separator: bytes) -> list[bytes]:
    return data.split(separator) if separator else [data[place : place + 1] for place in range(len(data))]


def _count_parts(data: bytes, separator: bytes) -> int:
    return data.count(separator) + 1 if separator else len(data)
