"""Ten thousand malformed requests: each is answered in time, no answer is a fault of ours."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from dragoman.config.settings import ServerSettings
from tests.fuzz.answers import send_bytes, traces
from tests.fuzz.mutations import bomb, spoiled_bytes, spoiled_json
from tests.server.running import Running, config_for, running
from tests.upstream.byte_server import ByteServer, eventually, reply

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
#: Larger ones cost more than they find.
LARGEST = 20_000
CASES = 10_000
ROUNDS = 10
AT_ONCE = 32
#: More than this the pool does not keep.
IDLE_CONNECTIONS = AT_ONCE
#: Without a dialect: the embedded model.
UPSTREAMS = ("", "anthropic", "openai_chat", "openai_responses", "gemini")

PATHS = (
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/input_tokens",
    "/v1beta/models/m:generateContent",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/v1beta/models/m:streamGenerateContent",
    "/v1beta/models/m:countTokens",
)
ODD_PATHS = (
    "/", "//", "/v1/../v1/messages", "/v1/messages%00", "/%2e%2e/%2e%2e/etc/passwd", "/v1/models/%ff%fe",
    "/v1/responses/resp_%00", "/v1beta/models/:generateContent", "/v1beta/models/a/b/c:nothing", "*",
    "/v1/" + "a" * 9000, "/v1/models/" + "%41" * 500, "/v1/messages?" + "key=" * 2000, "/\u00e9",
)  # fmt: skip
ODD_HEADERS = (
    "content-length: -1", "content-length: 99999999999999999999", "content-length: 1, 2",
    "transfer-encoding: chunked", "transfer-encoding: gzip", "transfer-encoding: identity, chunked",
    "content-encoding: gzip", "content-encoding: zstd", "content-encoding: br",
    "host: ", "host: evil.example", "origin: https://evil.example", "origin: null", "x-api-key: \x80\xff",
    "authorization: Bearer", "authorization: " + "x" * 5000, "upgrade: websocket", "connection: upgrade",
    "upgrade: h2c", "expect: 100-continue", "expect: 200-maybe", "no colon here", ": no name", "a b: c",
    "x-very-long: " + "y" * 70_000, "anthropic-beta: " + ",".join("b" * 9 for _ in range(500)),
    "traceparent: 00-zz-zz-zz", "x-session-id: \x0b", "range: bytes=0-", "content-type: text/\x01",
)  # fmt: skip
METHODS = (
    "GET",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "HEAD",
    "TRACE",
    "CONNECT",
    "post",
    "P\x00ST",
    "LONG" * 50,
)


def bodies() -> list[tuple[str, bytes]]:
    """Path and body of the recorded requests that are short enough."""
    found = []
    for path in sorted(RECORDINGS.glob("*/request-*.json")):
        request = msgspec.json.decode(path.read_bytes())
        body = msgspec.json.encode(request["body"])
        if len(body) <= LARGEST:
            found.append((str(request["path"]), body))
    return found


BODIES = bodies()


def whole(port: int, path: str, body: bytes, *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}", *headers]
    if not any(line.startswith(("content-length", "transfer-encoding")) for line in headers):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def odd_body(dice: Random, port: int) -> bytes:
    path, body = dice.choice(BODIES)
    return whole(port, path, spoiled_json(dice, body))


def broken_body(dice: Random, port: int) -> bytes:
    path, body = dice.choice(BODIES)
    return whole(port, path, spoiled_bytes(dice, body))


def body_of_another(dice: Random, port: int) -> bytes:
    return whole(port, dice.choice(PATHS), dice.choice(BODIES)[1])


def odd_head(dice: Random, port: int) -> bytes:
    path, body = dice.choice(BODIES)
    headers = [dice.choice(ODD_HEADERS) for _ in range(dice.randint(1, 3))]
    return whole(port, path, body, *headers)


def odd_target(dice: Random, port: int) -> bytes:
    method = dice.choice(("POST", *METHODS))
    return whole(port, dice.choice((*ODD_PATHS, *PATHS)), dice.choice(BODIES)[1], method=method)


def packed_badly(dice: Random, port: int) -> bytes:
    packed = dice.choice((bomb(4_000_000), spoiled_bytes(dice, bomb(1000)), b"(\xb5/\xfd" + bytes(20)))
    encoding = dice.choice(("gzip", "zstd", "deflate"))
    return whole(port, dice.choice(PATHS), packed, f"content-encoding: {encoding}")


def chunked_badly(dice: Random, port: int) -> bytes:
    path, body = dice.choice(BODIES)
    size = dice.choice(
        (b"%x" % len(body), b"-1", b"ffffffffffffffffff", b"zz", b"0", b"%x;ext=1" % len(body))
    )
    data = (
        size
        + b"\r\n"
        + body
        + dice.choice((b"\r\n0\r\n\r\n", b"\r\n", b"0\r\n\r\n", b"\r\n0\r\nx: y\r\n\r\n"))
    )
    return whole(port, path, data, "transfer-encoding: chunked")


def broken_anywhere(dice: Random, port: int) -> bytes:
    path, body = dice.choice(BODIES)
    return spoiled_bytes(dice, whole(port, path, body))


KINDS: tuple[Callable[[Random, int], bytes], ...] = (
    odd_body, odd_body, odd_body, broken_body, broken_body, body_of_another, odd_head, odd_target,
    packed_badly, chunked_badly, broken_anywhere, broken_anywhere,
)  # fmt: skip


async def faults_of(seed: str, gateway: Running) -> list[str]:
    dice = Random(seed)
    kind = dice.choice(KINDS)
    request = kind(dice, gateway.port)
    name = f"{seed} {kind.__name__}"
    try:
        answers = await send_bytes(gateway.port, request)
    except TimeoutError:
        return [f"{name}: no answer and no end"]
    except Exception as error:  # the parser's errors have no common base
        return [f"{name}: the answer cannot be read: {error!r}"]
    return [f"{name}: status {status}" for status in answers.statuses if status >= 500]


@pytest.mark.rule("R124")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_malformed_request_gets_a_fault_a_hang_or_leaves_anything(number: int) -> None:
    faults: list[str] = []

    async def fuzz() -> None:
        dialect = UPSTREAMS[number % len(UPSTREAMS)]
        answer = (RECORDINGS / (dialect or "gemini") / "reply-text.json").read_bytes()
        server = ServerSettings(port=0, max_body_mb=1)
        async with (
            ByteServer([reply(answer, "200 OK", "content-type: application/json")]) as upstream,
            running(config_for(upstream.url if dialect else "", dialect, server=server)) as gateway,
        ):
            free = asyncio.Semaphore(AT_ONCE)

            async def one(case: int) -> None:
                async with free:
                    faults.extend(await faults_of(f"request {number} {case}", gateway))

            await asyncio.gather(*(one(case) for case in range(CASES // ROUNDS)))
            await eventually(lambda: not gateway.app.exchanges)
            # It still serves, and no request is left open.
            got = await gateway.ask("POST", "/v1/responses", {"model": "m", "input": "hello"})
            assert got.status == 200
            await eventually(lambda: upstream.open <= IDLE_CONNECTIONS)

    with traces() as found:
        asyncio.run(fuzz())
    assert faults == []
    assert found == []
