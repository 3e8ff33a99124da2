"""Client keys: who calls, what the key allows, and the SQL of the stored keys.

A key is long and random, so one SHA-256 protects it: the file holds only the hash, and the hash cannot be
reversed by guessing. Each change increments `key_generation`, so that a running gateway notices it. The
functions that take a transaction expect an open transaction.
"""

import hashlib
import secrets
import string
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from dragoman.accounts.errors import build_model_error
from dragoman.accounts.limits import NO_LIMITS, Limits
from dragoman.config.provider import remove_alias
from dragoman.hub.errors import ClientProtocolError, ConfigError
from dragoman.storage.port import Row, Transaction

KEY_PREFIX = "dgm_"
#: What `dragoman run` gives to agents if the gateway requires no key: they insist on one. It is no secret.
ANY_KEY = "dragoman"
#: Prefix of the ids of stored keys. Callers from the configuration have other ids.
ID_PREFIX = "key_"
#: Letters and digits after the prefix; about 256 bits.
KEY_LENGTH = 43
#: Characters of a key that are stored in clear text, so that its owner can recognize it.
VISIBLE_LENGTH = len(KEY_PREFIX) + 6

#: A change of it shows the gateways that the keys have changed.
INCREMENT_GENERATION = "UPDATE key_generation SET number = number + 1"

_ALPHABET = string.ascii_letters + string.digits
_SELECT = """
SELECT id, name, prefix, models, limits, created, expires, revoked, former_until, digest, former
FROM client_keys
"""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The client of a request, identified by its key. It never holds the key, so it may be logged.

    Usage is stored under `id`. It is empty if the gateway requires no key.
    """

    id: str = ""
    name: str = ""
    #: Identifies the key itself, for keys of the configuration: their `id` is only their position there.
    fingerprint: str = ""
    #: Patterns of the allowed model names. Empty: all models are allowed.
    models: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS
    #: Seconds since 1970; 0 means never.
    expires: float = 0.0
    #: The owner of stored conversations, made of the others. No other key ever has the same value.
    owner: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "owner", self.fingerprint or self.id)


#: The caller of every request if the gateway requires no key.
ANONYMOUS = Caller()


class ClientKey(msgspec.Struct, frozen=True, kw_only=True):
    """A stored key without the key itself. Dates are seconds since 1970; 0 means never."""

    caller: Caller
    #: The first characters of the key.
    prefix: str
    created: float
    revoked: float = 0.0
    #: The key before the last rotation is valid until this date.
    former_until: float = 0.0


class ClientKeyEntry(NamedTuple):
    """What the gateway finds under the hash of a key."""

    caller: Caller
    #: This key was replaced by rotation and is valid until this date; 0 means no end.
    until: float
    is_revoked: bool
    #: The hash is that of a sign-in's token, which is valid until `until`.
    is_sign_in: bool = False


def may_use_model(caller: Caller, model: str) -> bool:
    return not caller.models or any(fnmatchcase(remove_alias(model), pattern) for pattern in caller.models)


def check_model(caller: Caller, model: str) -> None:
    """Raise if the key does not allow the model. `model` is the name that the client sent, or empty."""
    if not may_use_model(caller, model):
        if not model:
            raise ClientProtocolError("expected the name of a model, got nothing", path="model")
        raise build_model_error(caller.name, model, caller.models)


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def generate_key() -> str:
    return KEY_PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(KEY_LENGTH))


async def create_key(
    transaction: Transaction,
    name: str,
    now: float,
    *,
    models: tuple[str, ...] = (),
    limits: Limits = NO_LIMITS,
    expires: float = 0.0,
) -> tuple[ClientKey, str]:
    """Store a new key. Returns its record and the key text, which is not stored."""
    if await find_key(transaction, name) is not None:
        raise ConfigError(
            f"there is a key named {name!r} already",
            hint=f"choose another name, or give it a new key: dragoman keys rotate {name}",
        )
    key = generate_key()
    # The id is not the name: a later key with the same name must not inherit the data of this one.
    identity = ID_PREFIX + secrets.token_hex(8)
    await transaction.execute(
        "INSERT INTO client_keys (id, name, prefix, digest, models, limits, created, expires)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        identity,
        name,
        key[:VISIBLE_LENGTH],
        hash_key(key),
        _encode(models),
        _encode(limits),
        now,
        expires,
    )
    await increment_generation(transaction)
    return await get_key(transaction, name), key


async def rotate_key(
    transaction: Transaction, name: str, now: float, keep: float = 0.0
) -> tuple[ClientKey, str]:
    """Replace the key text. The former text stays valid for `keep` seconds. Returns the new text."""
    if (await get_key(transaction, name)).revoked:
        raise ConfigError(f"the key {name!r} was revoked", hint="create another: dragoman keys create")
    key = generate_key()
    # A key is often rotated because another person has it, and may have signed in with it.
    await transaction.execute(
        "DELETE FROM sign_in_tokens WHERE key = (SELECT id FROM client_keys WHERE name = $1)", name
    )
    changed = await _update(
        transaction,
        name,
        "UPDATE client_keys SET former = CASE WHEN $2 > 0 THEN digest END, former_until = $2,"
        " digest = $3, prefix = $4 WHERE id = $1",
        (now + keep if keep > 0 else 0.0, hash_key(key), key[:VISIBLE_LENGTH]),
    )
    return changed, key


async def revoke_key(transaction: Transaction, name: str, now: float) -> ClientKey:
    """Make the key invalid. Its name stays in use and its usage stays in reports."""
    statement = "UPDATE client_keys SET revoked = $2, former = NULL WHERE revoked = 0 AND id = $1"
    return await _update(transaction, name, statement, (now,))


async def delete_key(transaction: Transaction, name: str) -> ClientKey:
    """Delete the key, but not its usage. The name can be used again."""
    return await _update(transaction, name, "DELETE FROM client_keys WHERE id = $1", ())


async def change_key(
    transaction: Transaction, name: str, *, models: tuple[str, ...], limits: Limits, expires: float
) -> ClientKey:
    """Change what the key allows. The key text stays."""
    statement = "UPDATE client_keys SET models = $2, limits = $3, expires = $4 WHERE id = $1"
    return await _update(transaction, name, statement, (_encode(models), _encode(limits), expires))


async def _update(
    transaction: Transaction, name: str, statement: str, values: tuple[object, ...]
) -> ClientKey:
    """Run a statement whose first value is the id of the key. Returns the key after it, if it exists."""
    key = await get_key(transaction, name)
    await transaction.execute(statement, key.caller.id, *values)
    await increment_generation(transaction)
    return await find_key(transaction, name) or key


async def get_key(transaction: Transaction, name: str) -> ClientKey:
    """The key with this name. Raises an error that lists the existing names."""
    found = await find_key(transaction, name)
    if found is None:
        names = ", ".join(key.caller.name for key in (await list_keys(transaction))[:20])
        raise ConfigError(
            f"there is no key named {name!r}",
            hint=f"there are: {names}" if names else f"create it: dragoman keys create {name}",
        )
    return found


async def find_key(transaction: Transaction, name: str) -> ClientKey | None:
    row = await transaction.fetch_one(_SELECT + " WHERE name = $1", name)
    return _decode_row(row) if row else None


async def find_key_by_id(transaction: Transaction, identity: str) -> ClientKey | None:
    row = await transaction.fetch_one(_SELECT + " WHERE id = $1", identity)
    return _decode_row(row) if row else None


async def list_keys(transaction: Transaction) -> list[ClientKey]:
    """All keys, the oldest first."""
    return [_decode_row(row) for row in await transaction.fetch(_SELECT + " ORDER BY created, name")]


async def read_generation(transaction: Transaction) -> int:
    """The number of changes to the keys so far."""
    row = await transaction.fetch_one("SELECT number FROM key_generation")
    return int(row[0]) if row else 0


async def read_entries(transaction: Transaction) -> dict[bytes, ClientKeyEntry]:
    """All current and former keys, and the access tokens of their sign-ins, by their hash."""
    entries = dict(entry for row in await transaction.fetch(_SELECT) for entry in _build_entries(row))
    by_id = {entry.caller.id: entry for entry in entries.values()}
    tokens = await transaction.fetch("SELECT digest, key, expires FROM sign_in_tokens WHERE kind = 'access'")
    for digest, key, expires in tokens:
        if key in by_id:
            entries[digest] = by_id[key]._replace(until=expires, is_sign_in=True)
    return entries


async def has_stored_keys(transaction: Transaction) -> bool:
    return await transaction.fetch_one("SELECT 1 FROM client_keys LIMIT 1") is not None


def _build_entries(row: Row) -> Iterator[tuple[bytes, ClientKeyEntry]]:
    key, (digest, former) = _decode_row(row), row[-2:]
    if isinstance(digest, bytes):
        yield digest, ClientKeyEntry(key.caller, 0.0, bool(key.revoked))
    if isinstance(former, bytes):
        yield former, ClientKeyEntry(key.caller, key.former_until, bool(key.revoked))


def _decode_row(row: Row) -> ClientKey:
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


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def increment_generation(transaction: Transaction) -> None:
    await transaction.execute(INCREMENT_GENERATION)
