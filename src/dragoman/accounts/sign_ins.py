"""Sign-ins: tokens that an agent gets for a client key, and the SQL that stores their hashes.

A sign-in has access tokens, which work like the key itself, and one refresh token. It ends with its key: when
the key is revoked, deleted, expired or rotated. The functions expect an open transaction.
"""

import secrets

import msgspec

from dragoman.accounts.keys import find_key_by_id, hash_key, increment_generation
from dragoman.storage.port import Transaction

#: Seconds for which an access token is valid.
ACCESS_LIFETIME = 86_400
#: The tokens of one key. The oldest are deleted.
MAX_TOKENS = 200
_PREFIXES = {"access": "dgt_", "refresh": "dgr_"}


class TokenGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens for an agent. `refresh` is empty if the access token cannot be renewed."""

    access: str
    refresh: str = ""
    expires_in: int = ACCESS_LIFETIME
    #: The name of the key.
    name: str = ""

    def __repr__(self) -> str:
        return f"TokenGrant({self.name!r})"


async def create_sign_in(
    transaction: Transaction, key: str, now: float, lifetime: float
) -> TokenGrant | None:
    """A new sign-in for the key with this id; None if the key is not valid any more.

    `lifetime`: seconds until the sign-in ends if it is not renewed.
    """
    return await _grant(transaction, secrets.token_hex(8), key, now, lifetime, refresh="")


async def renew_sign_in(
    transaction: Transaction, token: str, now: float, lifetime: float
) -> TokenGrant | None:
    """A further access token for a refresh token; None if the token is not valid any more."""
    row = await transaction.fetch_one(
        "SELECT sign_in, key FROM sign_in_tokens WHERE digest = $1 AND kind = 'refresh' AND expires > $2",
        hash_key(token),
        now,
    )
    return await _grant(transaction, row[0], row[1], now, lifetime, refresh=token) if row else None


async def end_sign_in(transaction: Transaction, token: str) -> None:
    """Delete all tokens of the sign-in that the token belongs to. An unknown token changes nothing."""
    await transaction.execute(
        "DELETE FROM sign_in_tokens WHERE sign_in IN (SELECT sign_in FROM sign_in_tokens WHERE digest = $1)",
        hash_key(token),
    )
    await increment_generation(transaction)


async def _grant(
    transaction: Transaction, sign_in: str, key: str, now: float, lifetime: float, *, refresh: str
) -> TokenGrant | None:
    found = await find_key_by_id(transaction, key)
    if found is None or found.revoked or 0 < found.caller.expires <= now:
        return None
    access = _PREFIXES["access"] + secrets.token_urlsafe(32)
    refresh = refresh or _PREFIXES["refresh"] + secrets.token_urlsafe(32)
    rows = (("access", access, now + ACCESS_LIFETIME), ("refresh", refresh, now + lifetime))
    await transaction.execute_many(
        "INSERT INTO sign_in_tokens (digest, sign_in, key, kind, expires) VALUES ($1, $2, $3, $4, $5)"
        " ON CONFLICT (digest) DO UPDATE SET expires = excluded.expires",
        [(hash_key(token), sign_in, key, kind, expires) for kind, token, expires in rows],
    )
    await transaction.execute("DELETE FROM sign_in_tokens WHERE expires <= $1", now)
    await transaction.execute(
        "DELETE FROM sign_in_tokens WHERE key = $1 AND digest NOT IN"
        " (SELECT digest FROM sign_in_tokens WHERE key = $1 ORDER BY expires DESC LIMIT $2)",
        key,
        MAX_TOKENS,
    )
    await increment_generation(transaction)
    return TokenGrant(access=access, refresh=refresh, name=found.caller.name)
