"""Stored keys are created, hashed, changed, rotated and revoked."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.accounts import keys as client_keys
from dragoman.accounts.keys import hash_key
from dragoman.accounts.limits import Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import connect

NOW = 1_800_000_000.0


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = connect(None, ACCOUNTS_SCHEMA)
    yield connection
    connection.close()


def test_a_key_is_long_random_and_easy_to_select() -> None:
    made = {client_keys.generate_key() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"dgm_[A-Za-z0-9]{43}", key) for key in made)


@pytest.mark.rule("C26")
def test_the_file_holds_no_key(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = connect(path, ACCOUNTS_SCHEMA)
    _, key = client_keys.create_key(connection, "ci", NOW)
    _, other = client_keys.rotate_key(connection, "ci", NOW, keep=60)
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    connection.close()
    written += b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"ci" in written
    for secret in (key, other):
        assert secret.encode() not in written
        # Recognising it takes a few letters, and they are not enough to guess the rest.
        # The bytes of the hash come after them in the file, and one may by chance be the next letter.
        assert secret[: client_keys.VISIBLE_LENGTH + 4].encode() not in written


def test_a_key_keeps_its_terms(connection: sqlite3.Connection) -> None:
    limits = Limits(requests_per_minute=5, cost_per_month=7)
    made, key = client_keys.create_key(
        connection, "ci", NOW, models=("a-*", "b"), limits=limits, expires=NOW + 60
    )
    assert client_keys.get_key(connection, "ci") == made
    caller = made.caller
    assert (caller.models, caller.limits, caller.expires) == (("a-*", "b"), limits, NOW + 60)
    assert client_keys.read_entries(connection)[hash_key(key)].caller == caller


def test_a_name_is_given_once(connection: sqlite3.Connection) -> None:
    client_keys.create_key(connection, "ci", NOW)
    with pytest.raises(ConfigError, match="already") as caught:
        client_keys.create_key(connection, "ci", NOW)
    assert "rotate ci" in caught.value.hint


def test_an_unknown_name_is_answered_with_those_there_are(connection: sqlite3.Connection) -> None:
    with pytest.raises(ConfigError) as caught:
        client_keys.get_key(connection, "ci")
    assert caught.value.hint == "create it: dragoman keys create ci"
    client_keys.create_key(connection, "ann", NOW)
    with pytest.raises(ConfigError) as caught:
        client_keys.revoke_key(connection, "bob", NOW)
    assert caught.value.hint == "there are: ann"


def test_rotating_keeps_all_but_the_key(connection: sqlite3.Connection) -> None:
    made, old = client_keys.create_key(connection, "ci", NOW, models=("a",))
    rotated, new = client_keys.rotate_key(connection, "ci", NOW + 5)
    assert rotated.caller == made.caller
    assert list(client_keys.read_entries(connection)) == [hash_key(new)]
    assert old != new


def test_the_old_key_may_count_for_a_while_and_the_one_before_it_never(
    connection: sqlite3.Connection,
) -> None:
    _, first = client_keys.create_key(connection, "ci", NOW)
    _, second = client_keys.rotate_key(connection, "ci", NOW, keep=60)
    entries = client_keys.read_entries(connection)
    assert (entries[hash_key(first)].until, entries[hash_key(second)].until) == (NOW + 60, 0)
    client_keys.rotate_key(connection, "ci", NOW, keep=60)
    assert hash_key(first) not in client_keys.read_entries(connection)


def test_a_revoked_key_is_known_as_such_and_cannot_be_rotated(connection: sqlite3.Connection) -> None:
    _, old = client_keys.create_key(connection, "ci", NOW)
    _, key = client_keys.rotate_key(connection, "ci", NOW, keep=60)
    client_keys.revoke_key(connection, "ci", NOW)
    assert client_keys.revoke_key(connection, "ci", NOW + 9).revoked == NOW
    entries = client_keys.read_entries(connection)
    assert entries[hash_key(key)].is_revoked
    assert hash_key(old) not in entries
    with pytest.raises(ConfigError, match="revoked"):
        client_keys.rotate_key(connection, "ci", NOW)


def test_a_deleted_key_leaves_its_name_to_another_with_another_id(connection: sqlite3.Connection) -> None:
    first, _ = client_keys.create_key(connection, "ci", NOW)
    client_keys.delete_key(connection, "ci")
    second, _ = client_keys.create_key(connection, "ci", NOW)
    assert first.caller.id != second.caller.id


def test_every_change_counts(connection: sqlite3.Connection) -> None:
    seen = [client_keys.read_generation(connection)]
    client_keys.create_key(connection, "ci", NOW)
    seen.append(client_keys.read_generation(connection))
    client_keys.rotate_key(connection, "ci", NOW)
    seen.append(client_keys.read_generation(connection))
    client_keys.change_key(connection, "ci", models=(), limits=Limits(tokens_per_day=1), expires=0)
    seen.append(client_keys.read_generation(connection))
    client_keys.revoke_key(connection, "ci", NOW)
    seen.append(client_keys.read_generation(connection))
    client_keys.delete_key(connection, "ci")
    seen.append(client_keys.read_generation(connection))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_asking_whether_there_are_keys_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert not client_keys.has_keys_in_file(path)
    assert not path.exists()
    connection = connect(path, ACCOUNTS_SCHEMA)
    assert not client_keys.has_keys_in_file(path)
    client_keys.create_key(connection, "ci", NOW)
    assert client_keys.has_keys_in_file(path)
    connection.close()
