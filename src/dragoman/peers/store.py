"""The tables of peers and their SQL. All functions expect an open transaction."""

import secrets
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from dragoman.storage.database import Schema
from dragoman.storage.port import Transaction

PEERS_SCHEMA = Schema(
    "peers",
    (
        """
CREATE TABLE IF NOT EXISTS peer_secret (number INTEGER PRIMARY KEY, secret TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS parked_calls (
    call TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    gateway TEXT NOT NULL,
    address TEXT NOT NULL,
    local TEXT NOT NULL,
    expires REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS parked_calls_by_session ON parked_calls (session)
""",
        """
CREATE TABLE hints (
    gateway TEXT NOT NULL,
    kind TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    key INTEGER NOT NULL,
    value REAL NOT NULL,
    expires REAL NOT NULL,
    PRIMARY KEY (gateway, kind, provider, model, key)
) WITHOUT ROWID
""",
    ),
)


class PeerAddress(msgspec.Struct, frozen=True):
    """A gateway process. `local` is an address for processes of the same machine; perhaps empty."""

    gateway: str
    address: str
    local: str = ""


class SessionCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls for which a session waits. Without calls, it waits no more."""

    session: str
    owner: str
    calls: tuple[str, ...] = ()
    #: The date until which the session waits.
    expires: float = 0.0


class Hint(NamedTuple):
    """What a gateway has seen of a target: a cooldown, or the seconds until the first content."""

    kind: Literal["cooldown", "first_word"]
    provider: str
    model: str
    #: The index of a key of the provider.
    key: int
    value: float
    #: The date until which it counts.
    expires: float


async def write_hints(transaction: Transaction, gateway: str, hints: Collection[Hint], now: float) -> None:
    """Replace the hints of a gateway. Those whose time is over are deleted too."""
    await transaction.execute("DELETE FROM hints WHERE gateway = $1 OR expires < $2", gateway, now)
    await transaction.execute_many(
        "INSERT INTO hints (gateway, kind, provider, model, key, value, expires)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7)",
        [(gateway, *hint) for hint in hints],
    )


async def read_hints(transaction: Transaction, gateway: str, now: float) -> list[Hint]:
    """The hints of the other gateways."""
    rows = await transaction.fetch(
        "SELECT kind, provider, model, key, value, expires FROM hints WHERE gateway <> $1 AND expires >= $2",
        gateway,
        now,
    )
    return [Hint(*row) for row in rows]


async def find_secret(transaction: Transaction) -> bytes:
    """The secret of all gateways with this state. The first one that asks creates it."""
    await transaction.execute(
        "INSERT INTO peer_secret (number, secret) VALUES (1, $1) ON CONFLICT (number) DO NOTHING",
        secrets.token_hex(32),
    )
    row = await transaction.fetch_one("SELECT secret FROM peer_secret WHERE number = 1")
    return bytes.fromhex(row[0]) if row else b""


async def write_calls(
    transaction: Transaction, peer: PeerAddress, waiting: Collection[SessionCalls], now: float
) -> None:
    """Replace the calls for which these sessions wait. Calls whose time is over are deleted too."""
    await transaction.execute("DELETE FROM parked_calls WHERE expires < $1", now)
    await transaction.execute_many(
        "DELETE FROM parked_calls WHERE session = $1 AND gateway = $2",
        [(each.session, peer.gateway) for each in waiting],
    )
    await transaction.execute_many(
        "INSERT INTO parked_calls (call, owner, session, gateway, address, local, expires)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (call) DO UPDATE SET owner = excluded.owner,"
        " session = excluded.session, gateway = excluded.gateway, address = excluded.address,"
        " local = excluded.local, expires = excluded.expires",
        [
            (call, each.owner, each.session, *msgspec.structs.astuple(peer), each.expires)
            for each in sorted(waiting, key=lambda calls: calls.session)
            for call in sorted(each.calls)
        ],
    )


async def find_holder(
    transaction: Transaction, owner: str, calls: Sequence[str], now: float
) -> PeerAddress | None:
    """The gateway that waits for one of the calls."""
    places = ", ".join(f"${number + 3}" for number in range(len(calls)))
    row = await transaction.fetch_one(
        f"SELECT gateway, address, local FROM parked_calls"  # noqa: S608 (only places)
        f" WHERE owner = $1 AND expires >= $2 AND call IN ({places}) LIMIT 1",
        owner,
        now,
        *calls,
    )
    return PeerAddress(*row) if row else None


async def delete_calls(transaction: Transaction, gateway: str) -> None:
    """Delete the calls of a gateway that has ended."""
    await transaction.execute("DELETE FROM parked_calls WHERE gateway = $1", gateway)
