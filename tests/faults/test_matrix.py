"""Every fault with every pair of dialects, streamed and whole: a true error or the whole answer, no leaks.

One gateway and one upstream for each dialect serve all of it. Times are guards against a hang and are never
asserted: the machine may be busy.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, product
from pathlib import Path

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Secret, ServerSettings, Timeouts
from dragoman.dialects.registry import dialect_named
from tests.e2e.asking import ClientReply, request, understand
from tests.faults.replies import ANSWER
from tests.faults.table import FAULTS, ProviderKind
from tests.faults.upstream import FaultyUpstream
from tests.fuzz.answers import Answers, traces
from tests.server.running import Running, running
from tests.upstream.byte_server import eventually

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
CERTIFICATES = Path(__file__).resolve().parent.parent / "upstream" / "http" / "certificates"
UNKNOWN_HOST = "no-such-provider.invalid"
#: Seconds after which an exchange counts as a hang. Only a bug comes here.
PATIENCE = 120.0
#: Seconds of silence that `quick` providers accept.
QUICK = 1.0
AT_ONCE = 32
#: Connections that wait for their next request are no leak.
MAX_IDLE = AT_ONCE


class Exchanged(msgspec.Struct, frozen=True):
    """One exchange: who asked whom, and what the client got."""

    fault: str
    client: str
    upstream: str
    is_stream: bool
    model: str
    reply: ClientReply

    @property
    def name(self) -> str:
        form = "streamed" if self.is_stream else "whole"
        return f"{self.fault}: {self.client} -> {self.upstream}, {form}"


class Bench:
    """A running gateway with all upstreams."""

    def __init__(self, gateway: Running, upstreams: dict[str, FaultyUpstream]) -> None:
        self.gateway = gateway
        self.upstreams = upstreams
        self._numbers = count()

    async def exchange(self, fault: str, client: str, upstream: str, is_stream: bool) -> Exchanged:
        model = f"{fault}.{next(self._numbers)}"
        name = f"{FAULTS[fault].provider}-{upstream}/{model}"
        path, body = request(client, name, "hello", stream=is_stream)
        answer = Answer()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateway.port)
        try:
            data = msgspec.json.encode(body)
            writer.write(
                f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(data)}\r\n\r\n".encode()
            )
            writer.write(data)
            if FAULTS[fault].leaves:
                await eventually(lambda: self.upstreams[upstream].requests[model] > 0, PATIENCE)
                if is_stream and FAULTS[fault].leaves == "after the first piece":
                    assert await reader.read(1)
            else:
                await answer.read(reader)
        finally:
            writer.transport.abort()
        reply = answer.reply
        if reply.status:
            understand(client, reply, stream=is_stream)
        return Exchanged(fault, client, upstream, is_stream, model, reply)

    async def run_everywhere(self, fault: str) -> list[Exchanged]:
        """The fault for every pair of dialects, streamed and whole."""
        free = asyncio.Semaphore(AT_ONCE)

        async def run_one(client: str, upstream: str, is_stream: bool) -> Exchanged:
            async with free, asyncio.timeout(PATIENCE):
                return await self.exchange(fault, client, upstream, is_stream)

        return await asyncio.gather(*(run_one(*each) for each in product(DIALECTS, DIALECTS, (True, False))))

    async def wait_until_nothing_is_left(self) -> None:
        await eventually(lambda: not self.gateway.app.exchanges, PATIENCE)
        await eventually(lambda: all(each.open <= MAX_IDLE for each in self.upstreams.values()), PATIENCE)


class Answer(Answers):
    """The answer of one connection, with its content type."""

    def __init__(self) -> None:
        super().__init__()
        self._content_type = ""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._content_type = value.decode("latin-1")

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Read to the end of the answer, or until the gateway hangs up."""
        while not (self.are_complete and self.are_complete[-1]):
            data = await reader.read(65536)
            if not data:
                break
            self.feed(data)

    @property
    def reply(self) -> ClientReply:
        if not self.statuses:
            return ClientReply(broke=True)
        return ClientReply(
            status=self.statuses[0],
            headers={"content-type": self._content_type},
            raw=self.bodies[0],
            broke=not self.are_complete[0],
        )


def build_config(upstreams: dict[str, FaultyUpstream], tls_port: int, closed_port: int) -> Config:
    """Providers of each kind for each dialect. None retries, so that each fault is met once."""
    urls: dict[ProviderKind, str] = {
        "usual": "http://127.0.0.1:{port}",
        "quick": "http://127.0.0.1:{port}",
        "refused": f"http://127.0.0.1:{closed_port}",
        "unresolved": f"http://{UNKNOWN_HOST}",
        "untrusted": f"https://127.0.0.1:{tls_port}",
    }
    providers = {
        f"{kind}-{dialect}": Provider(
            name=f"{kind}-{dialect}",
            dialect=dialect,
            base_url=url.format(port=upstream.port),
            keys=(Secret("sk-key"),),
            retries=0,
            timeouts=Timeouts(first_byte=QUICK, idle=QUICK)
            if kind == "quick"
            else Timeouts(connect=PATIENCE, first_byte=PATIENCE, idle=PATIENCE),
        )
        for (kind, url), (dialect, upstream) in product(urls.items(), upstreams.items())
    }
    default = (TargetName("usual-openai_chat", "*"),)
    return Config(server=ServerSettings(port=0), providers=providers, default=default)


@asynccontextmanager
async def open_bench() -> AsyncIterator[Bench]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATES / "server.crt", CERTIFICATES / "server.key")
    with socket.socket() as closed:
        # Bound and not listening: no other process gets the port.
        closed.bind(("127.0.0.1", 0))
        async with AsyncExitStack() as stack:
            upstreams = {each: await stack.enter_async_context(FaultyUpstream(each)) for each in DIALECTS}
            untrusted = await stack.enter_async_context(FaultyUpstream("openai_chat", tls))
            config = build_config(upstreams, untrusted.port, closed.getsockname()[1])
            yield Bench(await stack.enter_async_context(running(config)), upstreams)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def bench(runner: asyncio.Runner) -> Iterator[Bench]:
    opened = open_bench()
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture(autouse=True)
def unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """One name does not resolve, whatever the machine's resolver does."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: object, **options: object) -> object:
        if host == UNKNOWN_HOST:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **options)  # type: ignore[arg-type]  # passes on what it gets

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def has_answer(exchanged: Exchanged) -> bool:
    reply = exchanged.reply
    return reply.outcome() == "finished" and reply.text == ANSWER and not reply.calls


def has_true_error(exchanged: Exchanged) -> bool:
    """An error with a message in the client's dialect, and no success before or after it."""
    reply, fault = exchanged.reply, FAULTS[exchanged.fault]
    if (reply.is_finished and not fault.is_after_end) or not reply.error or not reply.error_kind:
        return False
    if reply.status == 200:
        # Some Gemini clients overlook an error in the stream, so that they also see the connection break.
        return exchanged.is_stream and (exchanged.client == "gemini" or not reply.broke)
    return 400 <= reply.status < 600 and (not fault.statuses or reply.status in fault.statuses)


EXPECTATIONS: dict[str, Callable[[Exchanged], bool]] = {
    "answer": has_answer,
    "error": has_true_error,
    "either": lambda exchanged: has_answer(exchanged) or has_true_error(exchanged),
    "left": lambda exchanged: True,
}


def find_complaints(exchanged: Exchanged) -> list[str]:
    reply, fault = exchanged.reply, FAULTS[exchanged.fault]
    is_forwarded = fault.is_forwarded and exchanged.client == exchanged.upstream
    found = [] if is_forwarded else list(reply.garbled)
    if (
        not is_forwarded
        and reply.status == 200
        and reply.headers["content-type"].startswith("text/event-stream")
    ):
        found += [str(each) for each in dialect_named(exchanged.client).check_stream(reply.raw)]
    if not EXPECTATIONS[fault.expected](exchanged):
        found.append(f"{reply.outcome()} {reply.status} {reply.text!r} {reply.error!r} {reply.error_kind}")
    return [f"{exchanged.name}: {each}" for each in found[:2]]


@pytest.mark.rule("S16", "R127", "R128", "H72", "H73")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_in_a_true_error_or_the_whole_answer(
    bench: Bench, runner: asyncio.Runner, fault: str
) -> None:
    async def run() -> list[Exchanged]:
        exchanged = await bench.run_everywhere(fault)
        if FAULTS[fault].leaves:
            left = {(each.upstream, each.model) for each in exchanged}
            await eventually(lambda: all(m in bench.upstreams[u].left for u, m in left), PATIENCE)
        await bench.wait_until_nothing_is_left()
        return exchanged

    with traces() as logged:
        exchanged = runner.run(run())
    assert len(exchanged) == 32
    assert [complaint for each in exchanged for complaint in find_complaints(each)] == []
    assert logged == []
    if FAULTS[fault].provider == "usual":
        # On a busy machine a short limit may end an exchange before the upstream has the request.
        assert [
            each.name for each in exchanged if not bench.upstreams[each.upstream].requests[each.model]
        ] == []


def test_the_table_has_the_faults_that_it_promises() -> None:
    assert len(FAULTS) - 1 >= 25
    assert {fault.expected for fault in FAULTS.values()} == set(EXPECTATIONS)
