"""The recorder: contents, sizes, levels, limits, and what happens when the disk or the process fails."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.keys import ANY_KEY, Caller
from dragoman.config.settings import RecordLevel, RecordSettings
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.gateway import Gateway
from dragoman.records import recorder as recorder_module
from dragoman.records import turn_writer
from dragoman.records.blocks import MIN_COMPRESSED, compress, compress_long, decompress, decompress_long
from dragoman.records.filters import Condition, parse_filter
from dragoman.records.journal import PATTERN
from dragoman.records.reading import find_body, list_sessions, list_turns, read_part, read_raw, read_turn
from dragoman.records.store import delete_turns, open_records, read_size
from dragoman.upstream.port import UpstreamRequest
from dragoman.wire.sse import Output, encode_sse
from tests.exchange.fakes import Break, RememberingClient, Script, ScriptedAnswer, ScriptedUpstream
from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE
from tests.records.recorded_gateway import CLAUDE, RecordedGateway, ask

Result = TypeVar("Result")

HELLO = [{"role": "user", "content": "hello"}]
EVERYTHING = parse_filter("")


def play(recorded: RecordedGateway, *actions: Callable[[], Awaitable[Result]]) -> list[Result]:
    """Run the actions one after the other, and wait until everything is written."""

    async def run() -> list[Result]:
        results = [await action() for action in actions]
        await asyncio.to_thread(recorded.recorder.close)
        return results

    return asyncio.run(run())


@pytest.mark.rule("R86", "R132")
def test_a_turn_has_both_requests_and_both_replies_byte_for_byte(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)
    body = ask(HELLO, system="be kind")
    (client,) = play(recorded, lambda: recorded.send(body))
    turn = recorded.read(read_turn, "session-1", 1)
    assert recorded.read(read_raw, turn["id"], "client_request") == body
    assert recorded.read(read_raw, turn["id"], "upstream_request") == recorded.upstream.calls[0].body
    assert recorded.read(read_raw, turn["id"], "upstream_reply") == b"".join(CHAT_STREAM)
    assert recorded.read(read_raw, turn["id"], "client_reply") == client.body
    assert (turn["agent"], turn["version"], turn["target"], turn["lane"]) == (
        "claude-code",
        "2.1.0",
        "up/m",
        "translate",
    )
    assert (turn["input"], turn["output"], turn["ending"]) == (12, 3, "finished")
    events = recorded.read(read_part, "session-1", 1, "client_reply")["events"]
    assert events[0]["event"] == "message_start"
    assert events[-1]["event"] == "message_stop"


def test_a_whole_reply_is_recorded(tmp_path: Path) -> None:
    headers = {"content-type": "application/json"}
    recorded = RecordedGateway(tmp_path, Script(pieces=(CHAT_WHOLE,), headers=headers))
    play(recorded, lambda: recorded.send(ask(HELLO, stream=False)))
    assert recorded.read(read_part, "last", 1, "client_reply")["events"][0]["data"]["type"] == "message"


def test_every_try_is_recorded(tmp_path: Path) -> None:
    failed = Script(status=503, pieces=(b'{"error":{"message":"busy"}}',))
    recorded = RecordedGateway(tmp_path, failed, Script(pieces=CHAT_STREAM))
    play(recorded, lambda: recorded.send(ask(HELLO)))
    turn = recorded.read(read_turn, "last", 1)
    assert (turn["tries"], [call["status"] for call in turn["calls"]]) == (2, [503, 200])
    assert recorded.read(read_part, "last", 1, "upstream_reply", 0)["events"][0]["data"]["error"]
    assert turn["attempts"][0]["failure"]["kind"] == "overloaded"


def test_a_broken_reply_is_recorded_as_far_as_it_came(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path, Script(pieces=(*CHAT_STREAM[:3], Break())))
    (client,) = play(recorded, lambda: recorded.send(ask(HELLO)))
    turn = recorded.read(read_turn, "last", 1)
    assert turn["ending"] == "truncated"
    assert recorded.read(read_raw, turn["id"], "client_reply") == client.body


@pytest.mark.rule("R132")
def test_no_credential_and_no_secret_reaches_the_file(tmp_path: Path) -> None:
    secret = "-".join(("sk", "ant", "api03", "abcdefghijklmnop"))
    recorded = RecordedGateway(tmp_path)
    headers = {**CLAUDE, "x-api-key": secret, "cookie": "sid=1234567890"}
    body = ask([{"role": "user", "content": f"my key is {secret}, ours is provider-key-0001"}])
    play(recorded, lambda: recorded.send(body, headers=headers))
    text = str(recorded.read(read_turn, "last", 1)) + str(
        recorded.read(read_part, "last", 1, "client_request")
    )
    for each in (secret, "provider-key-0001", "not-to-be-stored", "1234567890"):
        assert each not in text
    assert stat.S_IMODE(recorded.file.stat().st_mode) == 0o600


@pytest.mark.rule("R120", "R132")
@pytest.mark.parametrize("status", [200, 400])
def test_a_credential_that_the_provider_quotes_does_not_reach_the_file(status: int, tmp_path: Path) -> None:
    token = "own-login-of-the-client"
    text = msgspec.json.encode(
        {"type": "error", "error": {"type": "api_error", "message": f"you sent {token}"}}
    )
    limit = {"anthropic-ratelimit-requests-limit": token}
    head = {"content-type": "application/json", "request-id": token, **limit}
    quoting = Script(pieces=(text,), headers=head, status=status)
    recorded = RecordedGateway(tmp_path, quoting, dialect="anthropic", relays=True)
    play(recorded, lambda: recorded.send(ask(HELLO), headers={**CLAUDE, "authorization": f"Bearer {token}"}))
    assert recorded.upstream.calls
    stored = str(recorded.read(read_turn, "last", 1))
    stored += str(recorded.read(read_part, "last", 1, "upstream_reply"))
    stored += str(recorded.read(read_part, "last", 1, "client_reply"))
    assert "you sent" in stored
    assert token not in stored


@pytest.mark.rule("R120", "R132")
def test_a_credential_in_the_history_does_not_reach_the_file(tmp_path: Path) -> None:
    token = "own-login-of-the-client"
    recorded = RecordedGateway(tmp_path, dialect="anthropic", relays=True)
    headers = {**CLAUDE, "authorization": f"Bearer {token}"}
    more = [
        *HELLO,
        {"role": "assistant", "content": f"You sent {token}."},
        {"role": "user", "content": "So?"},
    ]
    first = partial(recorded.send, ask(HELLO), headers=headers)
    play(recorded, first, partial(recorded.send, ask(more), headers=headers))
    for part in ("client_request", "upstream_request"):
        stored = str(recorded.read(read_part, "last", 2, part))
        assert "You sent" in stored
        assert token not in stored


def test_the_key_of_agents_without_a_key_is_no_secret(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path, dialect="anthropic", relays=True)
    headers = {**CLAUDE, "authorization": f"Bearer {ANY_KEY}"}
    body = ask([{"role": "user", "content": f"Look into /srv/{ANY_KEY}."}])
    play(recorded, partial(recorded.send, body, headers=headers))
    assert f"/srv/{ANY_KEY}" in str(recorded.read(read_part, "last", 1, "client_request"))


class PushingAnswer(ScriptedAnswer):
    """An answer that hands its pieces to a callback, as that of an HTTP server."""

    def pieces(self) -> AsyncIterator[bytes]:
        self._left = super().pieces()
        return self._left

    async def push_to(self, sink: Callable[[bytes], bool]) -> bool:
        async for piece in self._left:
            if not sink(piece):
                return False
        return True


class PushingUpstream(ScriptedUpstream):
    async def send(self, call: UpstreamRequest) -> ScriptedAnswer:
        return PushingAnswer((await super().send(call)).script)


def test_reads_that_give_the_client_nothing_are_no_pieces_of_its_reply(tmp_path: Path) -> None:
    whole = b"".join(CHAT_STREAM)
    recorded = RecordedGateway(tmp_path)
    pushing = PushingUpstream(Script(pieces=[whole[at : at + 40] for at in range(0, len(whole), 40)]))
    recorded.gateway = Gateway(recorded.config, upstreams={"up": pushing})
    recorded.gateway.recorder = recorded.recorder
    recorded.gateway.observers.append(recorded.recorder.record_exchange)
    client = RememberingClient()

    def write(data: bytes) -> bool:
        client.writes.append(data)
        return True

    async def drained() -> None:
        """At once."""

    client.direct = DirectConnection(encode_sse, write, drained)
    play(recorded, partial(recorded.send, ask(HELLO), client=client))
    body = recorded.read(find_body, 1, "client_reply")
    assert body is not None
    lengths = [length for _, length in body.pieces]
    assert sum(lengths) == len(client.body)
    assert len(client.writes) > 1
    assert all(lengths[:-1])


@pytest.mark.parametrize(
    ("gateway", "route", "key", "level"),
    [
        ("off", None, None, None),
        ("meta", None, None, "meta"),
        ("bodies", None, None, "bodies"),
        ("bodies", "meta", None, "meta"),
        ("off", "bodies", None, "bodies"),
        ("bodies", "bodies", "off", None),
        ("off", "off", "bodies", "bodies"),
    ],
)
def test_the_key_decides_then_the_route_then_the_gateway(
    gateway: RecordLevel,
    route: RecordLevel | None,
    key: RecordLevel | None,
    level: RecordLevel | None,
    tmp_path: Path,
) -> None:
    settings = RecordSettings(record=gateway, keys={"ci": key} if key else {})
    recorded = RecordedGateway(tmp_path, settings=settings, route_level=route)
    play(recorded, lambda: recorded.send(ask(HELLO), caller=Caller(id="k", name="ci")))
    if level is None:
        assert not recorded.file.exists()
    else:
        turn = recorded.read(read_turn, "last", 1)
        assert turn["level"] == level
        assert bool(turn["parts"]) == (level == "bodies")


def test_meta_knows_session_and_project_and_stores_no_content(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path, settings=RecordSettings(record="meta"))
    body = ask([{"role": "user", "content": "marigold"}], system="Working directory: /srv/garden\n")
    later = ask([*HELLO, {"role": "user", "content": "marigold"}])
    play(recorded, lambda: recorded.send(body), lambda: recorded.send(later))
    (session,) = recorded.read(list_sessions, EVERYTHING)
    assert (session["session"], session["project"], session["turns"]) == ("session-1", "/srv/garden", 2)
    assert b"marigold" not in recorded.file.read_bytes()
    assert recorded.read(read_size)[0] == 2


def test_requests_without_a_session_header_are_grouped_by_their_first_message(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)
    headers = {"user-agent": "my-app/1.0"}
    first = [{"role": "user", "content": "plan a garden"}]
    more = [*first, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    other = [{"role": "user", "content": "plan a house"}]
    play(
        recorded,
        *(lambda turns=turns: recorded.send(ask(turns), headers=headers) for turns in (first, more, other)),
    )
    assert sorted(session["turns"] for session in recorded.read(list_sessions, EVERYTHING)) == [1, 2]


def test_a_session_stores_each_block_once(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)
    tools = [{"name": f"tool_{number}", "input_schema": {"d": os.urandom(200).hex()}} for number in range(40)]
    turns: list[dict[str, object]] = []
    steps = []
    for number in range(20):
        turns.append({"role": "user", "content": f"{number} {os.urandom(500).hex()}"})
        steps.append(ask(list(turns), tools=tools))
        turns.append({"role": "assistant", "content": f"answer {number}"})
    play(recorded, *(lambda body=body: recorded.send(body) for body in steps))
    _, size = recorded.read(read_size)
    everything = sum(map(len, steps))
    # Random hexadecimal text shrinks to half; both dialects hold the new texts of each turn and the tools.
    assert size < everything / 8
    for number, body in enumerate(steps, 1):
        turn = recorded.read(read_turn, "last", number)
        assert recorded.read(read_raw, turn["id"], "client_request") == body


def test_old_turns_are_deleted_and_their_blocks_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_writer, "CHECK_EVERY", 1)
    settings = RecordSettings(record="bodies", max_count=3)
    recorded = RecordedGateway(tmp_path, settings=settings)
    bodies = [ask([{"role": "user", "content": f"{number} {os.urandom(300).hex()}"}]) for number in range(12)]
    play(recorded, *(lambda body=body: recorded.send(body) for body in bodies))
    turns = recorded.read(list_turns, EVERYTHING)
    assert len(turns) == 3
    for turn in turns:
        assert recorded.read(read_raw, turn["id"], "client_request") == bodies[turn["number"] - 1]
    unused = recorded.read(lambda connection: connection.execute("SELECT COUNT(*) FROM blocks").fetchone()[0])
    assert unused <= len(turns) * 8


@pytest.mark.parametrize("level", ["meta", "bodies"])
def test_there_are_never_more_turns_than_the_limit(level: RecordLevel, tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path, settings=RecordSettings(record=level, max_count=5))
    counts = []

    async def run() -> None:
        for number in range(20):
            await recorded.send(ask([*HELLO, {"role": "user", "content": f"{number}"}]))
            await recorded.recorder.flush()
            counts.append(len(recorded.read(list_turns, EVERYTHING)))
            if number == 10:
                # A command deletes a turn between two others, and the oldest one.
                recorded.read(lambda connection: delete_turns(connection, [9, 7]))
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    assert counts == [1, 2, 3, 4, *[5] * 7, 4, *[5] * 8]
    assert recorded.recorder.status.written == 20


def read_everything(recorded: RecordedGateway) -> bytes:
    """All blocks of the file that have contents."""

    def read(connection: sqlite3.Connection) -> bytes:
        rows = connection.execute("SELECT data FROM blocks WHERE NOT is_list").fetchall()
        return b"\n".join(decompress(row[0]) for row in rows)

    return recorded.read(read)


def test_a_growing_session_is_whole_after_its_old_turns_were_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_writer, "CHECK_EVERY", 1)
    recorded = RecordedGateway(tmp_path, settings=RecordSettings(record="bodies", max_count=3))
    turns: list[dict[str, object]] = []
    bodies = []
    for number in range(12):
        turns.append({"role": "user", "content": f"{number} {os.urandom(400).hex()}"})
        bodies.append(ask(list(turns), tools=[{"name": "t", "input_schema": {"d": "x" * 3000}}]))
    play(recorded, *(lambda body=body: recorded.send(body) for body in bodies))
    for turn in recorded.read(list_turns, EVERYTHING):
        assert recorded.read(read_raw, turn["id"], "client_request") == bodies[turn["number"] - 1]
    # The blocks of the session are found again after a deletion: nothing is stored twice.
    everything = read_everything(recorded)
    assert everything.count(b"x" * 3000) == 2
    assert len(everything) < 4 * len(bodies[-1])


def test_a_deleted_session_leaves_none_of_its_words(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)
    tools = [{"name": f"tool_{number}", "input_schema": {"d": "x" * 600}} for number in range(5)]
    other = {**CLAUDE, "x-claude-code-session-id": "session-2"}
    steps = []
    for headers, word in ((CLAUDE, "marigold"), (other, "tulip")):
        turns: list[dict[str, object]] = []
        for number in range(4):
            turns.append({"role": "user", "content": f"{word} {number} " + "and so on " * 60})
            body = ask(list(turns), tools=tools, system="be kind " * 200)
            steps.append(lambda body=body, headers=headers: recorded.send(body, headers=headers))
    play(recorded, *steps)
    assert b"marigold" in read_everything(recorded)

    def delete(connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT id FROM turns WHERE session = 'session-1'").fetchall()
        delete_turns(connection, [row[0] for row in rows])

    recorded.read(delete)
    everything = read_everything(recorded)
    assert b"marigold" not in everything
    assert everything.count(b"tulip 3") == 2
    turn = recorded.read(read_turn, "session-2", 4)
    assert recorded.read(read_raw, turn["id"], "client_request") == body


@given(st.integers(14, 40), st.sampled_from(["api_key=", "the key is ", '"token": "']))
def test_a_secret_that_changes_between_two_requests_is_masked(shared: int, name: str) -> None:
    """The requests are equal up to a place within the secret."""
    secrets = ["sk-ant-api03-" + "a1" * 15, "sk-ant-api03-" + "a1" * 15]
    secrets[1] = secrets[1][:shared] + "Zz9" + secrets[1][shared:]
    with TemporaryDirectory() as folder:
        recorded = RecordedGateway(Path(folder))
        steps = []
        for secret in (*secrets, secrets[0]):
            content = "word " * 300 + name + secret + " and more"
            steps.append(ask([*HELLO, {"role": "user", "content": content}]))
        play(recorded, *(lambda body=body: recorded.send(body) for body in [ask(HELLO), *steps]))
        everything = read_everything(recorded)
        for secret in secrets:
            assert secret.encode()[-20:] not in everything
        for number, body in enumerate(steps, 2):
            turn = recorded.read(read_turn, "last", number)
            stored = recorded.read(read_raw, turn["id"], "client_request")
            assert stored is not None
            assert len(stored) == len(body)


def test_a_deletion_by_another_process_does_not_break_later_turns(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)
    bodies = [ask(HELLO), ask([*HELLO, {"role": "assistant", "content": "ok"}, *HELLO])]

    async def run() -> None:
        await recorded.send(bodies[0])
        for _ in range(1000):
            if recorded.recorder.status.written:
                break
            await asyncio.sleep(0.005)

        def delete(connection: sqlite3.Connection) -> None:
            rows = connection.execute("SELECT id FROM turns").fetchall()
            delete_turns(connection, [row[0] for row in rows])

        open_records(recorded.file, delete)
        await recorded.send(bodies[1])
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    (turn,) = recorded.read(list_turns, Condition("1"))
    assert recorded.read(read_raw, turn["id"], "client_request") == bodies[1]


def test_a_full_disk_loses_records_and_no_streams(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)
    recorded.file.mkdir()
    clients = play(recorded, *[lambda: recorded.send(ask(HELLO))] * 3)
    assert all(client.status == 200 and client.is_ended for client in clients)
    status = recorded.recorder.status
    assert (status.written, status.lost) == (0, 3)
    assert "records.db" in status.error


def test_a_slow_disk_loses_records_and_no_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_WAITING", 4)
    monkeypatch.setattr(recorder_module, "MAX_DELAY", 0.05)
    recorded = RecordedGateway(tmp_path)
    recorded.recorder._thread = object()  # type: ignore[assignment]  # a thread that takes nothing

    async def run() -> list[int]:
        return [(await recorded.send(ask(HELLO))).status for _ in range(5)]

    assert asyncio.run(run()) == [200] * 5
    assert recorded.recorder.status.lost == 4


@pytest.mark.parametrize("level", ["meta", "bodies"])
def test_a_turn_is_stored_before_the_end_of_its_reply_is_sent(level: RecordLevel, tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path, settings=RecordSettings(record=level))
    found = []

    class ReadingClient(RememberingClient):
        async def end(self, output: Output = ()) -> None:
            file, folder = recorded.file, recorded.file.parent
            requests = [b"".join(path.read_bytes() for path in folder.glob(PATTERN))]
            requests += [str(recorded.read(list_turns, EVERYTHING)).encode()] if file.exists() else []
            found.append([f"req_{number}".encode() in b"".join(requests) for number in (1, 2)])
            await super().end(output)

    play(recorded, *[lambda: recorded.send(ask(HELLO), client=ReadingClient())] * 2)
    assert found == [[True, False], [True, True]]
    turns = recorded.read(list_turns, EVERYTHING)
    assert [turn["ending"] for turn in turns] == ["finished"] * 2
    attempts = recorded.read(read_turn, "last", 2)["attempts"]
    assert [(attempt["target"], attempt["failure"]) for attempt in attempts] == [("up/m", None)]


#: Requests of two sessions, which their headers name, or their first messages alone.
NAMED = ((CLAUDE, HELLO), ({**CLAUDE, "x-claude-code-session-id": "session-2"}, HELLO))
UNNAMED = (
    ({"user-agent": "my-app/1.0"}, HELLO),
    ({"user-agent": "my-app/1.0"}, [{"role": "user", "content": "plan a house"}]),
)


@pytest.mark.parametrize("sessions", [NAMED, UNNAMED])
def test_turns_without_contents_share_a_transaction_and_are_numbered(
    sessions: tuple[tuple[dict[str, str], list[dict[str, str]]], ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder_module, "PAUSE", 1000.0)
    recorded = RecordedGateway(tmp_path, settings=RecordSettings(record="meta"))
    one, other = sessions
    is_waiting = Event()
    signals, get = recorded.recorder._signals, recorded.recorder._signals.get

    class WatchedSignals:
        """The signals of the thread, which show whether it waits for one."""

        put = signals.put

        def get(self, timeout: float | None = None) -> bool:
            is_waiting.set()
            signal = get(timeout=timeout)
            is_waiting.clear()
            return signal

    monkeypatch.setattr(recorded.recorder, "_signals", WatchedSignals())

    async def run() -> None:
        # The first turn of a session is written before the end of its reply.
        for headers, messages in (one, other):
            await recorded.send(ask(messages), headers=headers)
        await asyncio.to_thread(is_waiting.wait)
        for headers, messages in (one, other, one, other, one):
            await recorded.send(ask(messages), headers=headers)
        assert recorded.recorder.status.written == 2
        await recorded.recorder.flush()
        assert recorded.recorder.status.written == 7
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    turns = recorded.read(list_turns, EVERYTHING)
    numbers: dict[str, list[int]] = {}
    for turn in turns:
        numbers.setdefault(turn["session"], []).append(turn["number"])
    assert sorted(sorted(each) for each in numbers.values()) == [[1, 2, 3], [1, 2, 3, 4]]


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=1500), max_size=5))
def test_details_are_read_as_they_were_stored(members: dict[str, str]) -> None:
    details = msgspec.json.encode(members)
    packed = compress_long(details)
    assert len(packed) <= max(MIN_COMPRESSED, len(details))
    assert decompress_long(packed) == details
    # Older files have all details compressed.
    assert decompress_long(compress(details)) == details
