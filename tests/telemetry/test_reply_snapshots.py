"""Snapshots of governed replies: content, redaction, permissions, number of files."""

import asyncio
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Secret
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.storage.sqlite import SqliteStorage
from dragoman.telemetry import reply_snapshots
from dragoman.telemetry.redaction import redact
from dragoman.telemetry.reply_snapshots import SnapshotWriter
from tests.exchange.fakes import RememberingClient, ScriptedUpstream
from tests.exchange.governing import Block, events_of, governed, question, script

KEEPING: dict[str, object] = {"tools": "hold", "rename": True, "snapshots": True}
BROKEN: tuple[Block, ...] = ("I will look.", ("rEAD", "{'path': 'a',}"))


def kept(folder: Path, *blocks: Block, replies: int = 1, **values: object) -> list[Path]:
    """The files after a governed exchange or more."""
    return keep(folder, blocks, governed("up", "openai_chat", {**KEEPING, **values}), replies=replies)


def keep(
    folder: Path,
    blocks: Sequence[Block],
    provider: Provider,
    headers: Mapping[str, str] = MappingProxyType({}),
    *,
    replies: int = 1,
) -> list[Path]:
    """The files after exchanges with this provider."""

    async def scenario() -> None:
        dialect = provider.wire_dialect
        upstream = ScriptedUpstream(script(dialect, events_of(*blocks, cause="tool_calls")))
        config = Config(providers={"up": provider}, default=(TargetName("up", "*"),))
        gateway = Gateway(config, upstreams={"up": upstream}, storage=SqliteStorage(folder / "state.db"))
        files = SnapshotWriter(gateway.storage.folder)
        gateway.observers.append(files.write_snapshot)
        for number in range(replies):
            asked = question("anthropic")
            asked.metadata = msgspec.structs.replace(
                asked.metadata, request_id=f"req_{number}", headers=headers
            )
            await Exchange(gateway, asked.plan(), RememberingClient()).run()
        files.close()
        await gateway.close()

    asyncio.run(scenario())
    return sorted((folder / "governance").glob("*"))


def reply_in(path: Path) -> list[dict[str, object]]:
    content = msgspec.json.decode(path.read_bytes(), type=dict)
    blocks = content["reply"]["blocks"]
    assert isinstance(blocks, list)
    return blocks


@pytest.mark.rule("R85", "R86")
def test_both_sides_of_a_reply_that_was_changed_are_kept(tmp_path: Path) -> None:
    after, before = kept(tmp_path, *BROKEN)
    assert (before.name, after.name) == ("req_0.before.json", "req_0.after.json")
    text = {"kind": "text", "text": "I will look.", "is_open": False}
    call = {"kind": "call", "call_id": "call_1abcdefgh", "is_open": False}
    assert reply_in(before) == [text, {**call, "name": "rEAD", "text": "{'path': 'a',}"}]
    assert reply_in(after) == [text, {**call, "name": "Read", "text": '{"path": "a"}'}]
    content = msgspec.json.decode(before.read_bytes())
    assert (content["request"], content["target"]) == ("req_0", "up/m")
    assert [each["kind"] for each in content["interventions"]] == ["rename", "hold", "repair"]


@pytest.mark.rule("R86")
def test_files_are_for_the_users_eyes_alone(tmp_path: Path) -> None:
    for path in kept(tmp_path, *BROKEN):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "governance").stat().st_mode) == 0o700


@pytest.mark.rule("R86")
def test_nothing_is_written_without_the_setting_or_without_an_intervention(tmp_path: Path) -> None:
    assert kept(tmp_path, *BROKEN, snapshots=False) == []
    assert kept(tmp_path, "Just words.") == []


@pytest.mark.rule("R86")
def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_snapshots, "MAX_FILES", 4)
    files = kept(tmp_path, *BROKEN, replies=5)
    assert {path.name.partition(".")[0] for path in files} == {"req_3", "req_4"}


@pytest.mark.rule("R86")
def test_only_so_much_of_a_reply_is_kept(tmp_path: Path) -> None:
    _, before = kept(tmp_path, "x " * 100_000, *BROKEN[1:])
    text, call = reply_in(before)
    assert len(str(text["text"])) == 64 * 1024
    assert text["is_cut"]
    assert "text" not in call
    assert call["is_cut"]


@pytest.mark.rule("R86")
@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-" + "0a1b2c3d" * 5,
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
    ],
)
def test_what_looks_like_a_secret_is_not_kept(secret: str, tmp_path: Path) -> None:
    for path in kept(tmp_path, f"The key is {secret}.", ("rEAD", f'{{"path": "{secret}"}}')):
        assert secret not in path.read_text("utf-8")
        assert "[redacted]" in path.read_text("utf-8")


@pytest.mark.rule("R86", "R120")
@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"auth": "client"}, {"authorization": "Bearer quiet-meadow-lantern"}),
        ({"auth": "client"}, {"x-api-key": "quiet-meadow-lantern"}),
        ({"keys": (Secret("quiet-meadow-lantern"),)}, {}),
    ],
)
def test_the_secrets_of_the_call_are_not_kept(
    fields: dict[str, object], headers: dict[str, str], tmp_path: Path
) -> None:
    secret = "quiet-meadow-lantern"
    provider = msgspec.structs.replace(governed("up", "anthropic", KEEPING), **fields)
    blocks = (f"Your key is {secret}.", ("rEAD", f"{{'path': '{secret}',}}"), (secret, "{}"))
    files = keep(tmp_path, blocks, provider, headers)
    assert len(files) == 2
    for path in files:
        assert secret not in path.read_text("utf-8")
        assert "Your key is [redacted]." in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://me:hunter2@db/x", "postgres://me:[redacted]@db/x"),
        ('{"password": "hunter2"}', '{"password": "[redacted]"}'),
        ("Authorization: Bearer abc123", "Authorization: [redacted]"),
        ("API_KEY=short", "API_KEY=[redacted]"),
        ("echo ghp_" + "b" * 36, "echo [redacted]"),
        (r"a\nxoxb-short-words-only", r"a\n[redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\nab==\n-----END RSA PRIVATE KEY----- then", "[redacted] then"),
        ("-----BEGIN PRIVATE KEY-----\nMII", "[redacted]"),
        ("src/dragoman/governance/harvest/stage.py", "src/dragoman/governance/harvest/stage.py"),
        ("an-ordinary-and-rather-long-word", "an-ordinary-and-rather-long-word"),
        ("read the file notes.txt", "read the file notes.txt"),
    ],
)
def test_secrets_are_recognized(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_redaction_takes_no_time_on_hostile_text() -> None:
    for unit in ("eyJ", "://a:", "password=", "a1", "token: '", "-" * 7, "sk-ant-", "-----BEGIN PRIVATE KEY"):
        redact(unit * (64 * 1024 // len(unit)))
