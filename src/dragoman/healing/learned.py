"""The facts that refusals have proved, by provider and model, in memory and in the state file.

A fact ends after its lifetime, so that the request is tried again as the client sends it. It also ends when a
request that was built with it is refused in the same way, and when the provider has another address. The
configuration takes precedence over it.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping

import msgspec

from dragoman.config.model import FactLayer, Provider, TargetName
from dragoman.healing.corrections import Removal, describe_facts, merge_facts
from dragoman.hub.errors import ConfigError
from dragoman.providers.facts import PERMISSIVE, Facts
from dragoman.providers.profile import build_target_facts
from dragoman.storage.database import Database, Schema

LOGGER = logging.getLogger("dragoman")

#: Facts in memory. They are bounded because clients choose the model names.
MAX_FACTS = 1000

LEARNED_SCHEMA = Schema(
    "learned",
    (
        """
        CREATE TABLE IF NOT EXISTS learned_facts (
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            name TEXT NOT NULL,
            value TEXT NOT NULL,
            address TEXT NOT NULL,
            message TEXT NOT NULL,
            learned_at REAL NOT NULL,
            expires_at REAL NOT NULL,
            PRIMARY KEY (provider, model, name)
        ) WITHOUT ROWID
        """,
    ),
)


class LearnedFact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about one model at one address. `message`: the refusal, shortened. Times are dates."""

    target: TargetName
    name: str
    value: object
    address: str
    message: str
    learned_at: float
    expires_at: float

    def holds(self, address: str, now: float) -> bool:
        """Whether the fact is still true of the server at this address."""
        return self.address == address and now < self.expires_at


class LearnedFacts:
    """Owns the learned facts of one gateway. `clock` returns the date.

    Call `load` before the first use. A change applies at once and is written to the file soon after.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        database.add_schema(LEARNED_SCHEMA)
        self._database = database
        self._clock = clock
        self._facts: dict[TargetName, dict[str, LearnedFact]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read the file, once. Without a file there is nothing to read."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._read_file())
        if not self._loading.done():
            await asyncio.shield(self._loading)

    def find(self, target: TargetName, address: str) -> Mapping[str, LearnedFact]:
        """The facts about a model that hold now, if its provider has this address."""
        known = self._facts.get(target)
        if not known:
            return {}
        now = self._clock()
        ended = [name for name, fact in known.items() if not fact.holds(address, now)]
        if ended:
            self.forget(target, ended)
        return self._facts.get(target, {})

    def remember(
        self, target: TargetName, address: str, facts: Mapping[str, object], message: str, lifetime: float
    ) -> None:
        """Store facts about `target` that a refusal proved, for `lifetime` seconds."""
        self.find(target, address)
        known = self._facts.setdefault(target, {})
        merged = merge_facts({name: fact.value for name, fact in known.items()}, facts)
        now = self._clock()
        added = [
            LearnedFact(
                target=target,
                name=name,
                value=merged[name],
                address=address,
                message=message,
                learned_at=now,
                expires_at=now + lifetime,
            )
            for name in facts
        ]
        known |= {fact.name: fact for fact in added}
        self._drop_oldest()
        LOGGER.info("learned about %s: %s; the refusal: %s", target, describe_facts(facts), message)
        self._write(lambda connection: write_learned_facts(connection, added))

    def forget(self, target: TargetName, names: Iterable[str]) -> None:
        """Delete facts that are no longer true."""
        known = self._facts.get(target, {})
        gone = [name for name in names if known.pop(name, None) is not None]
        if not known:
            self._facts.pop(target, None)
        if gone:
            self._write(lambda connection: delete_learned_facts(connection, target, gone))

    async def close(self) -> None:
        """Wait until everything is written."""
        if self._writes:
            await asyncio.wait(tuple(self._writes))

    def _drop_oldest(self) -> None:
        while sum(map(len, self._facts.values())) > MAX_FACTS:
            oldest = next(iter(self._facts))
            self.forget(oldest, list(self._facts[oldest]))

    async def _read_file(self) -> None:
        path = self._database.path
        if path is None or not path.is_file():
            return
        try:
            facts = await self._database.read(read_learned_facts)
        except (sqlite3.Error, ConfigError) as error:
            LOGGER.error("the learned facts cannot be read: %s", error)
            return
        for fact in facts:
            self._facts.setdefault(fact.target, {}).setdefault(fact.name, fact)

    def _write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        if self._database.path is None:
            return
        task = asyncio.get_running_loop().create_task(self._try_write(work))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _try_write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        try:
            await self._database.run(work)
        except (sqlite3.Error, ConfigError) as error:
            LOGGER.error("the learned facts cannot be written: %s", error)


def add_learned_facts(
    provider: Provider, model: str, facts: Mapping[str, object], client_dialect: str, source: str = "refusal"
) -> Provider:
    """A copy of the provider that also has these facts about `model`, for clients of `client_dialect`."""
    if not facts:
        return provider
    values = dict(facts)
    if any(isinstance(value, Removal) for value in values.values()):
        target = build_target_facts(provider.build_profile(model), client_dialect)
        for name, value in facts.items():
            if isinstance(value, Removal):
                values[name] = sorted(getattr(target, name) - value.without)
    layer = FactLayer(source=source, models={model: values})
    return msgspec.structs.replace(provider, layers=(*provider.layers, layer))


def read_learned_facts(connection: sqlite3.Connection) -> list[LearnedFact]:
    """All facts in the file, the oldest first."""
    rows = connection.execute(
        "SELECT provider, model, name, value, address, message, learned_at, expires_at FROM learned_facts"
        " ORDER BY learned_at"
    )
    facts = [
        LearnedFact(
            target=TargetName(provider, model),
            name=name,
            value=_decode_value(value),
            address=address,
            message=message,
            learned_at=learned_at,
            expires_at=expires_at,
        )
        for provider, model, name, value, address, message, learned_at, expires_at in rows
    ]
    return [fact for fact in facts if _is_valid(fact)]


def _is_valid(fact: LearnedFact) -> bool:
    """Whether this version of dragoman knows the fact. Another version may have written the file."""
    if isinstance(fact.value, Removal):
        return isinstance(getattr(PERMISSIVE, fact.name, None), frozenset)
    try:
        msgspec.convert({fact.name: fact.value}, Facts)
    except msgspec.ValidationError:
        return False
    return True


def write_learned_facts(connection: sqlite3.Connection, facts: Iterable[LearnedFact]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO learned_facts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                fact.target.provider,
                fact.target.model,
                fact.name,
                _encode_value(fact.value),
                fact.address,
                fact.message,
                fact.learned_at,
                fact.expires_at,
            )
            for fact in facts
        ],
    )


def delete_learned_facts(connection: sqlite3.Connection, target: TargetName, names: Iterable[str]) -> None:
    connection.executemany(
        "DELETE FROM learned_facts WHERE provider = ? AND model = ? AND name = ?",
        [(target.provider, target.model, name) for name in names],
    )


def _encode_value(value: object) -> str:
    if isinstance(value, Removal):
        value = {"without": sorted(value.without)}
    elif isinstance(value, frozenset):
        value = sorted(value)
    return msgspec.json.encode(value).decode()


def _decode_value(text: str) -> object:
    value = msgspec.json.decode(text)
    if isinstance(value, dict):
        return msgspec.convert(value, Removal)
    return tuple(value) if isinstance(value, list) else value
