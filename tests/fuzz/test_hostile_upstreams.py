"""Ten thousand malformed replies: each ends for the client in time, legally, without a fault of ours."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import ServerSettings, Timeouts
from dragoman.dialects.registry import dialect_named
from tests.fuzz.answers import Answers, traces
from tests.fuzz.mutations import spoiled_bytes, spoiled_json
from tests.loopback import LoopbackServer
from tests.server.running import Running, running
from tests.upstream.byte_server import eventually

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
CASES = 10_000
ROUNDS = 10
AT_ONCE = 16
#: Seconds after which a reply counts as a hang. Only ever reached by a bug.
PATIENCE = 30.0

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
STREAMS = {
    dialect: [path.read_bytes() for path in sorted((RECORDINGS / dialect).glob("stream-*.sse"))]
    for dialect in DIALECTS
}
REPLIES = {
    dialect: [path.read_bytes() for path in sorted((RECORDINGS / dialect).glob("reply-*.json"))]
    for dialect in DIALECTS
}

MESSAGES = [{"role": "user", "content": "hello"}]
ASKING: dict[str, tuple[str, dict[str, object]]] = {
    "anthropic": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 100}),
    "openai_chat": ("/v1/chat/completions", {"messages": MESSAGES}),
    "openai_responses": ("/v1/responses", {"input": "hello", "store": False}),
    "gemini": (
        "/v1beta/models/{model}:{verb}",
        {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
    ),
}

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


def chunked(dice: Random, data: bytes) -> bytes:
    """In pieces of any size, properly framed."""
    framed, place = [], 0
    while place < len(data):
        size = dice.randint(1, max(1, len(data) // 3))
        piece = data[place : place + size]
        framed.append(b"%x\r\n%b\r\n" % (len(piece), piece))
        place += size
    return b"".join(framed) + b"0\r\n\r\n"


def odd_events(dice: Random, dialect: str) -> bytes:
    """Good framing, JSON with changed values."""
    lines = dice.choice(STREAMS[dialect]).split(b"\n")
    data = [number for number, line in enumerate(lines) if line.startswith(b"data: {")]
    for number in dice.sample(data, min(len(data), dice.randint(1, 3))):
        with suppress(ValueError):
            lines[number] = b"data: " + spoiled_json(dice, lines[number][6:])
    return EVENTS + chunked(dice, b"\n".join(lines))


def shuffled_events(dice: Random, dialect: str) -> bytes:
    """Whole events lost, doubled and out of order."""
    events = dice.choice(STREAMS[dialect]).split(b"\n\n")
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(events))
        change = dice.randrange(3)
        if change == 0 and len(events) > 1:
            del events[place]
        elif change == 1:
            events.insert(place, dice.choice(events))
        else:
            events.append(events.pop(place))
    return EVENTS + chunked(dice, b"\n\n".join(events))


def broken_events(dice: Random, dialect: str) -> bytes:
    return EVENTS + chunked(dice, spoiled_bytes(dice, dice.choice(STREAMS[dialect])))


def of_another_dialect(dice: Random, dialect: str) -> bytes:
    return EVENTS + chunked(dice, dice.choice(STREAMS[dice.choice(DIALECTS)]))


def whole_instead(dice: Random, dialect: str) -> bytes:
    body = spoiled_json(dice, dice.choice(REPLIES[dialect]))
    return WHOLE % len(body) + body


def broken_framing(dice: Random, dialect: str) -> bytes:
    return spoiled_bytes(dice, EVENTS + chunked(dice, dice.choice(STREAMS[dialect])))


def noise(dice: Random, dialect: str) -> bytes:
    return dice.randbytes(dice.randint(0, 300))


KINDS: tuple[Callable[[Random, str], bytes], ...] = (
    odd_events, odd_events, shuffled_events, shuffled_events, broken_events, of_another_dialect,
    whole_instead, broken_framing, noise,
)  # fmt: skip


def case(seed: str) -> tuple[Random, str, str, bool]:
    """Client dialect, upstream dialect, and whether it is streamed."""
    dice = Random(seed)
    return dice, dice.choice(DIALECTS), dice.choice(DIALECTS), dice.random() < 0.8


def answer_for(seed: str) -> tuple[str, bytes]:
    dice, _, upstream, _ = case(seed)
    kind = dice.choice(KINDS)
    return kind.__name__, kind(dice, upstream)


class HostileUpstream(LoopbackServer):
    """Answers each request with what its model name, a seed, stands for, and hangs up."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = int(head.partition("content-length: ")[2].split("\r\n")[0])
                body = msgspec.json.decode(await reader.readexactly(length))
                seed = body.get("model") or head.partition("/models/")[2].partition(":")[0]
                writer.write(answer_for(seed)[1])
                await writer.drain()
        finally:
            self.open -= 1
            writer.close()


def config(port: int) -> Config:
    providers = {
        dialect: Provider(
            name=dialect,
            dialect=dialect,
            base_url=f"http://127.0.0.1:{port}",
            retries=0,
            timeouts=Timeouts(first_byte=PATIENCE / 3, idle=PATIENCE / 3),
        )
        for dialect in DIALECTS
    }
    return Config(server=ServerSettings(port=0), providers=providers, default=(TargetName("anthropic", "*"),))


def request_for(seed: str, port: int) -> bytes:
    _, client, upstream, streams = case(seed)
    path, body = ASKING[client]
    model = f"{upstream}/{seed}"
    if client == "gemini":
        path = path.format(
            model=model, verb="streamGenerateContent?alt=sse" if streams else "generateContent"
        )
    else:
        body = {**body, "model": model, "stream": streams}
    data = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def got(port: int, request: bytes) -> Answers:
    """The whole answer, or what came of it before the gateway hung up."""
    answers = Answers()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(request)
            while not (answers.are_complete and answers.are_complete[-1]):
                data = await reader.read(65536)
                if not data:
                    break
                answers.feed(data)
    finally:
        writer.transport.abort()
    return answers


def is_object(body: bytes) -> bool:
    with suppress(ValueError):
        return isinstance(msgspec.json.decode(body), dict)
    return False


async def faults_of(seed: str, gateway: Running) -> list[str]:
    _, client, upstream, streams = case(seed)
    name = f"{seed}: {upstream} -> {client} {answer_for(seed)[0]}:"
    try:
        answers = await got(gateway.port, request_for(seed, gateway.port))
    except TimeoutError:
        return [f"{name} no end"]
    if len(answers.statuses) != 1:
        return [f"{name} no answer"]
    status, body, is_complete = answers.statuses[0], answers.bodies[0], answers.are_complete[0]
    if status != 200 or not streams:
        # An upstream's own 500 is passed on in the client's dialect; a fault of ours would be plain text.
        return [] if is_object(body) else [f"{name} status {status}, {body[:80]!r}"]
    if upstream == client:
        # Bytes of its own dialect go on as they are; they only have to end.
        return []
    violations = dialect_named(client).check_stream(body) if is_complete else []
    return [f"{name} {violation}" for violation in violations[:1]]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_malformed_reply_makes_a_fault_a_hang_or_an_illegal_stream(number: int) -> None:
    faults: list[str] = []

    async def fuzz() -> None:
        async with HostileUpstream() as upstream:
            async with running(config(upstream.port)) as gateway:
                free = asyncio.Semaphore(AT_ONCE)

                async def one(case: int) -> None:
                    async with free:
                        faults.extend(await faults_of(f"u{number}-{case}", gateway))

                await asyncio.gather(*(one(case) for case in range(CASES // ROUNDS)))
                await eventually(lambda: not gateway.app.exchanges)
                # One connection to each provider may have been opened early and wait for a request.
                await eventually(lambda: upstream.open <= len(DIALECTS))
            await eventually(lambda: upstream.open == 0)

    with traces() as found:
        asyncio.run(fuzz())
    assert faults == []
    assert found == []
