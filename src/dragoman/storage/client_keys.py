"""The client keys in the file: who may call, and on which terms.

Keys are random and long, so one SHA-256 is enough to keep them: the file does not tell them, and nobody can
guess what it hashes. Every change counts up a number by which a running gateway notices it.
"""

import hashlib
import secrets
import sqlite3
import string
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from dragoman.accounts.caller import Caller, Limits
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import connect

MARK = "dgm_"
#: How the ids of stored keys begin, and no other caller's does.
ID_MARK = "key_"
#: Letters and digits behind the mark; about 256 bits.
LENGTH = 43
#: How much of a key is kept, so that its owner can tell it from others.
SHOWN = len(MARK) + 6

_ALPHABET = string.ascii_letters + string.digits
_SELECT = """
SELECT id, name, prefix, models, limits, created, expires, revoked, former_until, digest, former
FROM client_keys
"""


class ClientKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it is remembered: all but the key itself."""

    caller: Caller
    #: The key's first letters.
    prefix: str
    created: float
    #: When it was revoked, and until when the key before the last rotation counts; 0 is never.
    revoked: float = 0.0
    former_until: float = 0.0


class Entry(NamedTuple):
    """What a gateway looks up by the digest of a key that is shown."""

    caller: Caller
    #: The date after which this very key counts no more, because it was rotated; 0 is never.
    until: float
    is_revoked: bool


def digest_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def new_key() -> str:
    return MARK + "".join(secrets.choice(_ALPHABET) for _ in range(LENGTH))


def create(
    connection: sqlite3.Connection,
    name: str,
    now: float,
    *,
    models: tuple[str, ...] = (),
    limits: Limits | None = None,
    expires: float = 0.0,
) -> tuple[ClientKey, str]:
    """A new key, and the text that its owner shows; it cannot be had a second time."""
    if find(connection, name) is not None:
        raise ConfigError(
            f"there is a key named {name!r} already",
            hint=f"choose another name, or give it a new key: dragoman keys rotate {name}",
        )
    key = new_key()
    # Not the name: it may be given again, and what belonged to the first key is not the second one's.
    identity = ID_MARK + secrets.token_hex(8)
    connection.execute(
        "INSERT INTO client_keys (id, name, prefix, digest, models, limits, created, expires)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            identity,
            name,
            key[:SHOWN],
            digest_of(key),
            _text(models),
            _text(limits or Limits()),
            now,
            expires,
        ),
    )
    _changed(connection)
    return known(connection, name), key


def rotate(connection: sqlite3.Connection, name: str, now: float, keep: float = 0.0) -> tuple[ClientKey, str]:
    """A new text for the same key; the one before counts for `keep` more seconds."""
    held = known(connection, name)
    if held.revoked:
        raise ConfigError(f"the key {name!r} was revoked", hint="create another: dragoman keys create")
    key = new_key()
    connection.execute(
        "UPDATE client_keys SET former = CASE WHEN ? THEN digest END, former_until = ?,"
        " digest = ?, prefix = ? WHERE id = ?",
        (keep > 0, now + keep if keep > 0 else 0, digest_of(key), key[:SHOWN], held.caller.id),
    )
    _changed(connection)
    return known(connection, name), key


def revoke(connection: sqlite3.Connection, name: str, now: float) -> ClientKey:
    """It counts no more. Its name stays taken, and what it used is still told."""
    held = known(connection, name)
    connection.execute(
        "UPDATE client_keys SET revoked = ?, former = NULL WHERE id = ? AND revoked = 0",
        (now, held.caller.id),
    )
    _changed(connection)
    return known(connection, name)


def delete(connection: sqlite3.Connection, name: str) -> ClientKey:
    """As if it had never been, but for what it used."""
    held = known(connection, name)
    connection.execute("DELETE FROM client_keys WHERE id = ?", (held.caller.id,))
    _changed(connection)
    return held


def change(
    connection: sqlite3.Connection, name: str, *, models: tuple[str, ...], limits: Limits, expires: float
) -> ClientKey:
    """Other terms for the same key."""
    connection.execute(
        "UPDATE client_keys SET models = ?, limits = ?, expires = ? WHERE id = ?",
        (_text(models), _text(limits), expires, known(connection, name).caller.id),
    )
    _changed(connection)
    return known(connection, name)


def known(connection: sqlite3.Connection, name: str) -> ClientKey:
    """The key of this name, or an error that lists those there are."""
    found = find(connection, name)
    if found is None:
        names = ", ".join(key.caller.name for key in listed(connection)[:20])
        raise ConfigError(
            f"there is no key named {name!r}",
            hint=f"there are: {names}" if names else f"create it: dragoman keys create {name}",
        )
    return found


def find(connection: sqlite3.Connection, name: str) -> ClientKey | None:
    row = connection.execute(_SELECT + " WHERE name = ?", (name,)).fetchone()
    return _key(row) if row else None


def listed(connection: sqlite3.Connection) -> list[ClientKey]:
    """All of them, the oldest first."""
    rows = connection.execute(_SELECT + " ORDER BY created, name")
    return [_key(row) for row in rows]


def generation(connection: sqlite3.Connection) -> int:
    """Counts the changes to the keys."""
    return int(connection.execute("SELECT number FROM key_generation").fetchone()[0])


def entries(connection: sqlite3.Connection) -> dict[bytes, Entry]:
    """Every digest by which somebody may be known."""
    rows = connection.execute(_SELECT)
    return dict(entry for row in rows for entry in _entries(_key(row), digest=row[-2], former=row[-1]))


def has_any(path: Path) -> bool:
    """Whether a file that may not exist holds keys; it is not made for the question."""
    if not path.is_file():
        return False
    connection = connect(path)
    try:
        return connection.execute("SELECT 1 FROM client_keys LIMIT 1").fetchone() is not None
    finally:
        connection.close()


def _entries(key: ClientKey, *, digest: bytes, former: bytes | None) -> Iterator[tuple[bytes, Entry]]:
    yield digest, Entry(key.caller, 0.0, bool(key.revoked))
    if former is not None:
        yield former, Entry(key.caller, key.former_until, bool(key.revoked))


def _key(row: tuple[object, ...]) -> ClientKey:
    identity, name, prefix, models, limits, created, expires, revoked, former_until = row[:-2]
    fields = {
        "caller": {
            "id": identity,
            "name": name,
            "models": msgspec.json.decode(str(models)),
            "limits": msgspec.json.decode(str(limits)),
            "expires": expires,
        },
        "prefix": prefix,
        "created": created,
        "revoked": revoked,
        "former_until": former_until,
    }
    return msgspec.convert(fields, ClientKey)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _changed(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE key_generation SET number = number + 1")
