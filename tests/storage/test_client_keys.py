"""Keys are made once, kept as hashes, changed, rotated and revoked."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.accounts.caller import Limits
from dragoman.hub.errors import ConfigError
from dragoman.storage import client_keys
from dragoman.storage.client_keys import digest_of
from dragoman.storage.database import connect

NOW = 1_800_000_000.0


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = connect(None)
    yield connection
    connection.close()


def test_a_key_is_long_random_and_easy_to_select() -> None:
    made = {client_keys.new_key() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"dgm_[A-Za-z0-9]{43}", key) for key in made)


@pytest.mark.rule("C26")
def test_the_file_holds_no_key(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = connect(path)
    _, key = client_keys.create(connection, "ci", NOW)
    _, other = client_keys.rotate(connection, "ci", NOW, keep=60)
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    connection.close()
    written += b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"ci" in written
    for secret in (key, other):
        assert secret.encode() not in written
        # Recognising it takes a few letters, and they are not enough to guess the rest.
        assert secret[: client_keys.SHOWN + 1].encode() not in written


def test_a_key_keeps_its_terms(connection: sqlite3.Connection) -> None:
    limits = Limits(requests_per_minute=5, cost_per_month=7)
    made, key = client_keys.create(
        connection, "ci", NOW, models=("a-*", "b"), limits=limits, expires=NOW + 60
    )
    assert client_keys.known(connection, "ci") == made
    caller = made.caller
    assert (caller.models, caller.limits, caller.expires) == (("a-*", "b"), limits, NOW + 60)
    assert client_keys.entries(connection)[digest_of(key)].caller == caller


def test_a_name_is_given_once(connection: sqlite3.Connection) -> None:
    client_keys.create(connection, "ci", NOW)
    with pytest.raises(ConfigError, match="already") as caught:
        client_keys.create(connection, "ci", NOW)
    assert "rotate ci" in caught.value.hint


def test_an_unknown_name_is_answered_with_those_there_are(connection: sqlite3.Connection) -> None:
    with pytest.raises(ConfigError) as caught:
        client_keys.known(connection, "ci")
    assert caught.value.hint == "create it: dragoman keys create ci"
    client_keys.create(connection, "ann", NOW)
    with pytest.raises(ConfigError) as caught:
        client_keys.revoke(connection, "bob", NOW)
    assert caught.value.hint == "there are: ann"


def test_rotating_keeps_all_but_the_key(connection: sqlite3.Connection) -> None:
    made, old = client_keys.create(connection, "ci", NOW, models=("a",))
    rotated, new = client_keys.rotate(connection, "ci", NOW + 5)
    assert rotated.caller == made.caller
    assert list(client_keys.entries(connection)) == [digest_of(new)]
    assert old != new


def test_the_old_key_may_count_for_a_while_and_the_one_before_it_never(
    connection: sqlite3.Connection,
) -> None:
    _, first = client_keys.create(connection, "ci", NOW)
    _, second = client_keys.rotate(connection, "ci", NOW, keep=60)
    entries = client_keys.entries(connection)
    assert (entries[digest_of(first)].until, entries[digest_of(second)].until) == (NOW + 60, 0)
    client_keys.rotate(connection, "ci", NOW, keep=60)
    assert digest_of(first) not in client_keys.entries(connection)


def test_a_revoked_key_is_known_as_such_and_cannot_be_rotated(connection: sqlite3.Connection) -> None:
    _, old = client_keys.create(connection, "ci", NOW)
    _, key = client_keys.rotate(connection, "ci", NOW, keep=60)
    client_keys.revoke(connection, "ci", NOW)
    assert client_keys.revoke(connection, "ci", NOW + 9).revoked == NOW
    entries = client_keys.entries(connection)
    assert entries[digest_of(key)].is_revoked
    assert digest_of(old) not in entries
    with pytest.raises(ConfigError, match="revoked"):
        client_keys.rotate(connection, "ci", NOW)


def test_a_deleted_key_leaves_its_name_to_another_with_another_id(connection: sqlite3.Connection) -> None:
    first, _ = client_keys.create(connection, "ci", NOW)
    client_keys.delete(connection, "ci")
    second, _ = client_keys.create(connection, "ci", NOW)
    assert first.caller.id != second.caller.id


def test_every_change_counts(connection: sqlite3.Connection) -> None:
    seen = [client_keys.generation(connection)]
    client_keys.create(connection, "ci", NOW)
    seen.append(client_keys.generation(connection))
    client_keys.rotate(connection, "ci", NOW)
    seen.append(client_keys.generation(connection))
    client_keys.change(connection, "ci", models=(), limits=Limits(tokens_per_day=1), expires=0)
    seen.append(client_keys.generation(connection))
    client_keys.revoke(connection, "ci", NOW)
    seen.append(client_keys.generation(connection))
    client_keys.delete(connection, "ci")
    seen.append(client_keys.generation(connection))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_asking_whether_there_are_keys_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert not client_keys.has_any(path)
    assert not path.exists()
    connection = connect(path)
    assert not client_keys.has_any(path)
    client_keys.create(connection, "ci", NOW)
    assert client_keys.has_any(path)
    connection.close()
