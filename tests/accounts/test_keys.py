"""Stored keys are created, hashed, changed, rotated and revoked."""

import re

import pytest

from dragoman.accounts import keys as client_keys
from dragoman.accounts.keys import hash_key
from dragoman.accounts.limits import Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from dragoman.hub.errors import ConfigError
from tests.states import StateBed

NOW = 1_800_000_000.0


def test_a_key_is_long_random_and_easy_to_select() -> None:
    made = {client_keys.generate_key() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"dgm_[A-Za-z0-9]{43}", key) for key in made)


@pytest.mark.rule("C26")
def test_the_file_holds_no_key() -> None:
    state = StateBed("sqlite", ACCOUNTS_SCHEMA)
    _, key = state.do(client_keys.create_key, "ci", NOW)
    _, other = state.do(client_keys.rotate_key, "ci", NOW, keep=60)
    written = b"".join(file.read_bytes() for file in state.folder.iterdir())
    state.close()
    assert b"ci" in written
    for secret in (key, other):
        assert secret.encode() not in written
        # Recognising it takes a few letters, and they are not enough to guess the rest.
        # The bytes of the hash come after them in the file, and one may by chance be the next letter.
        assert secret[: client_keys.VISIBLE_LENGTH + 4].encode() not in written


def test_a_key_keeps_its_terms(state: StateBed) -> None:
    limits = Limits(requests_per_minute=5, cost_per_month=7)
    made, key = state.do(
        client_keys.create_key, "ci", NOW, models=("a-*", "b"), limits=limits, expires=NOW + 60
    )
    assert state.do(client_keys.get_key, "ci") == made
    caller = made.caller
    assert (caller.models, caller.limits, caller.expires) == (("a-*", "b"), limits, NOW + 60)
    assert state.do(client_keys.read_entries)[hash_key(key)].caller == caller


def test_a_name_is_given_once(state: StateBed) -> None:
    state.do(client_keys.create_key, "ci", NOW)
    with pytest.raises(ConfigError, match="already") as caught:
        state.do(client_keys.create_key, "ci", NOW)
    assert "rotate ci" in caught.value.hint


def test_an_unknown_name_is_answered_with_those_there_are(state: StateBed) -> None:
    with pytest.raises(ConfigError) as caught:
        state.do(client_keys.get_key, "ci")
    assert caught.value.hint == "create it: dragoman keys create ci"
    state.do(client_keys.create_key, "ann", NOW)
    with pytest.raises(ConfigError) as caught:
        state.do(client_keys.revoke_key, "bob", NOW)
    assert caught.value.hint == "there are: ann"


def test_rotating_keeps_all_but_the_key(state: StateBed) -> None:
    made, old = state.do(client_keys.create_key, "ci", NOW, models=("a",))
    rotated, new = state.do(client_keys.rotate_key, "ci", NOW + 5)
    assert rotated.caller == made.caller
    assert list(state.do(client_keys.read_entries)) == [hash_key(new)]
    assert old != new


def test_the_old_key_may_count_for_a_while_and_the_one_before_it_never(
    state: StateBed,
) -> None:
    _, first = state.do(client_keys.create_key, "ci", NOW)
    _, second = state.do(client_keys.rotate_key, "ci", NOW, keep=60)
    entries = state.do(client_keys.read_entries)
    assert (entries[hash_key(first)].until, entries[hash_key(second)].until) == (NOW + 60, 0)
    state.do(client_keys.rotate_key, "ci", NOW, keep=60)
    assert hash_key(first) not in state.do(client_keys.read_entries)


def test_a_revoked_key_is_known_as_such_and_cannot_be_rotated(state: StateBed) -> None:
    _, old = state.do(client_keys.create_key, "ci", NOW)
    _, key = state.do(client_keys.rotate_key, "ci", NOW, keep=60)
    state.do(client_keys.revoke_key, "ci", NOW)
    assert state.do(client_keys.revoke_key, "ci", NOW + 9).revoked == NOW
    entries = state.do(client_keys.read_entries)
    assert entries[hash_key(key)].is_revoked
    assert hash_key(old) not in entries
    with pytest.raises(ConfigError, match="revoked"):
        state.do(client_keys.rotate_key, "ci", NOW)


def test_a_deleted_key_leaves_its_name_to_another_with_another_id(state: StateBed) -> None:
    first, _ = state.do(client_keys.create_key, "ci", NOW)
    state.do(client_keys.delete_key, "ci")
    second, _ = state.do(client_keys.create_key, "ci", NOW)
    assert first.caller.id != second.caller.id


def test_two_processes_cannot_create_the_same_name(state: StateBed) -> None:
    """The check and the insertion are two statements, so the table itself must refuse the second."""
    state.do(client_keys.create_key, "ci", NOW)
    with pytest.raises(ConfigError):
        state.execute(
            "INSERT INTO client_keys (id, name, prefix, digest, models, limits, created)"
            " VALUES ('key_2', 'ci', '', $1, '[]', '{}', 0)",
            b"digest",
        )


def test_every_change_counts(state: StateBed) -> None:
    seen = [state.do(client_keys.read_generation)]
    state.do(client_keys.create_key, "ci", NOW)
    seen.append(state.do(client_keys.read_generation))
    state.do(client_keys.rotate_key, "ci", NOW)
    seen.append(state.do(client_keys.read_generation))
    state.do(client_keys.change_key, "ci", models=(), limits=Limits(tokens_per_day=1), expires=0)
    seen.append(state.do(client_keys.read_generation))
    state.do(client_keys.revoke_key, "ci", NOW)
    seen.append(state.do(client_keys.read_generation))
    state.do(client_keys.delete_key, "ci")
    seen.append(state.do(client_keys.read_generation))
    assert seen == [0, 1, 2, 3, 4, 5]
