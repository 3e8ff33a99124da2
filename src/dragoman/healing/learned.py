"""The facts that refusals have proved, by provider and model, in memory and in the state file.

A fact ends after its lifetime, so that the request is tried again as the client sends it. It also ends when a
request that was built with it is refused in the same way, and when the provider has another address. The
configuration takes precedence over it. Each refused field and each removed value is a fact of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

import msgspec

from dragoman.config.provider import FactLayer, Provider, TargetName
from dragoman.healing.corrections import REFUSED_FIELDS, Removal, describe_facts, list_items, merge_facts
from dragoman.hub.errors import ConfigError
from dragoman.providers.dialect_facts import DIALECT_FACTS
from dragoman.providers.facts import PERMISSIVE, Facts
from dragoman.providers.profile import TargetFacts, build_target_facts
from dragoman.storage.database import Schema
from dragoman.storage.port import StateStorage, Transaction, Work

LOGGER = logging.getLogger("dragoman")

#: Facts in memory. They are bounded because clients choose the model names.
MAX_FACTS = 1000

#: All tools that some vendor's servers run: what is left if a server without a list refuses one of them.
KNOWN_HOSTED_TOOLS = frozenset().union(*(facts.hosted_tools or () for facts in DIALECT_FACTS.values()))

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

_WRITE_FACT = """
INSERT INTO learned_facts (provider, model, name, value, address, message, learned_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (provider, model, name) DO UPDATE SET
    value = excluded.value, address = excluded.address, message = excluded.message,
    learned_at = excluded.learned_at, expires_at = excluded.expires_at
"""


class LearnedFact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about one model at one address. Times are seconds since 1970.

    `message`: the refusal, shortened.
    `item`: the refused field or the removed value, if the fact is about one.
    """

    target: TargetName
    name: str
    item: str = ""
    value: object
    address: str
    message: str
    learned_at: float
    expires_at: float

    @property
    def key(self) -> str:
        """Identifies the fact among those of its model, such as `sampling:temperature`."""
        return f"{self.name}:{self.item}" if self.item else self.name

    def holds(self, address: str, now: float) -> bool:
        """Whether the fact applies: it was learned at this address and has not expired."""
        return self.address == address and now < self.expires_at


class LearnedFacts:
    """Owns the learned facts of one gateway. `clock` returns the date.

    Call `load` before the first use. A change applies at once and is written to the file soon after.
    """

    def __init__(self, storage: StateStorage, clock: Callable[[], float]) -> None:
        storage.add_schema(LEARNED_SCHEMA)
        self._storage = storage
        self._clock = clock
        self._facts: dict[TargetName, dict[str, LearnedFact]] = {}
        #: The file has been read, or cannot be.
        self.is_loaded = False
        self._loading: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read the file, once. Without a file there is nothing to read."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._read_file())
        if not self._loading.done():
            await asyncio.shield(self._loading)

    def has_facts(self, target: TargetName) -> bool:
        """Whether there are facts about a model, which may have ended."""
        return target in self._facts

    def find(self, target: TargetName, address: str) -> list[LearnedFact]:
        """The facts about a model that hold now, if its provider has this address, the oldest first."""
        known = self._facts.get(target)
        if not known:
            return []
        now = self._clock()
        return [fact for fact in known.values() if fact.holds(address, now)]

    def remember(
        self, target: TargetName, address: str, facts: Mapping[str, object], message: str, lifetime: float
    ) -> None:
        """Store facts about `target` that a refusal proved, for `lifetime` seconds."""
        now = self._clock()
        self._forget_ended(target, address, now)
        known = self._facts.setdefault(target, {})
        added = [
            LearnedFact(
                target=target,
                name=name,
                item=item,
                value=value,
                address=address,
                message=message,
                learned_at=now,
                expires_at=now + lifetime,
            )
            for name, item, value in list_items(facts)
        ]
        for fact in added:
            known.pop(fact.key, None)  # the newest is the last
            known[fact.key] = fact
        self._drop_oldest()
        LOGGER.info("learned about %s: %s; the refusal: %s", target, describe_facts(facts), message)
        self._write(lambda transaction: write_learned_facts(transaction, added))

    def forget(self, target: TargetName, facts: Mapping[str, object]) -> None:
        """Delete the facts that have these values: they are no longer true."""
        known = self._facts.get(target, {})
        untrue = {f"{name}:{item}" if item else name: value for name, item, value in list_items(facts)}
        self._delete(
            target, [key for key, fact in known.items() if key in untrue and fact.value == untrue[key]]
        )

    def _forget_ended(self, target: TargetName, address: str, now: float) -> None:
        known = self._facts.get(target, {})
        self._delete(target, [key for key, fact in known.items() if not fact.holds(address, now)])

    def _delete(self, target: TargetName, keys: list[str]) -> None:
        known = self._facts.get(target, {})
        for key in keys:
            del known[key]
        if not known:
            self._facts.pop(target, None)
        if keys:
            self._write(lambda transaction: delete_learned_facts(transaction, target, keys))

    async def close(self) -> None:
        """Wait until everything is written."""
        if self._writes:
            await asyncio.wait(tuple(self._writes))

    def _drop_oldest(self) -> None:
        while sum(map(len, self._facts.values())) > MAX_FACTS:
            oldest = next(iter(self._facts))
            self._delete(oldest, list(self._facts[oldest]))

    async def _read_file(self) -> None:
        facts: list[LearnedFact] = []
        try:
            if self._storage.has_data:
                facts = await self._storage.read(read_learned_facts)
        except ConfigError as error:
            LOGGER.error("the learned facts cannot be read: %s", error)
        finally:
            self.is_loaded = True
        for fact in facts:
            self._facts.setdefault(fact.target, {}).setdefault(fact.key, fact)

    def _write(self, work: Work[None]) -> None:
        if not self._storage.is_lasting:
            return
        task = asyncio.get_running_loop().create_task(self._try_write(work))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _try_write(self, work: Work[None]) -> None:
        try:
            await self._storage.run(work)
        except ConfigError as error:
            LOGGER.error("the learned facts cannot be written: %s", error)


def merge_learned_facts(facts: Iterable[LearnedFact]) -> dict[str, object]:
    """The value of each fact by its name. Several learned values of one fact become one value."""
    merged: dict[str, object] = {}
    for fact in facts:
        merged = merge_facts(merged, {fact.name: fact.value})
    return merged


def add_learned_facts(
    provider: Provider, model: str, facts: Mapping[str, object], client_dialect: str, source: str = "refusal"
) -> Provider:
    """A copy of the provider that also has these facts about `model`, for clients of `client_dialect`.

    Refused fields and removals change what is known from other sources. A client that knows the model gets
    only the stated facts (`FactLayer`), so the change is computed for both.
    """
    if not facts:
        return provider
    values = []
    for only_stated in (True, False):
        profile = provider.build_profile(model, only_stated=only_stated)
        known = build_target_facts(profile, client_dialect)
        values.append({name: _resolve(name, value, known) for name, value in facts.items()})
    stated, full = values
    layers = [FactLayer(source=source, models={model: stated})]
    if full != stated:
        layers.append(FactLayer(source=source, models={model: full}, is_stated=False))
    return msgspec.structs.replace(provider, layers=(*provider.layers, *layers))


def _resolve(name: str, value: object, known: TargetFacts) -> object:
    """The value of a fact after a refusal: a removal or a refused field is applied to the known value."""
    if isinstance(value, Removal):
        before = getattr(known, name)
        return sorted((KNOWN_HOSTED_TOOLS if before is None else before) - value.without)
    if name == REFUSED_FIELDS and isinstance(value, tuple):
        return tuple(dict.fromkeys((*known.refused_fields, *value)))
    return value


async def read_learned_facts(transaction: Transaction) -> list[LearnedFact]:
    """All facts in the file, the oldest first."""
    rows = await transaction.fetch(
        "SELECT provider, model, name, value, address, message, learned_at, expires_at FROM learned_facts"
        " ORDER BY learned_at"
    )
    facts = [
        LearnedFact(
            target=TargetName(provider, model),
            name=key.partition(":")[0],
            item=key.partition(":")[2],
            value=_decode_value(value),
            address=address,
            message=message,
            learned_at=learned_at,
            expires_at=expires_at,
        )
        for provider, model, key, value, address, message, learned_at, expires_at in rows
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


async def write_learned_facts(transaction: Transaction, facts: Iterable[LearnedFact]) -> None:
    """Insert the facts, or replace those of the same target and key."""
    await transaction.execute_many(
        _WRITE_FACT,
        [
            (
                fact.target.provider,
                fact.target.model,
                fact.key,
                _encode_value(fact.value),
                fact.address,
                fact.message,
                fact.learned_at,
                fact.expires_at,
            )
            for fact in facts
        ],
    )


async def delete_learned_facts(transaction: Transaction, target: TargetName, keys: Iterable[str]) -> None:
    await transaction.execute_many(
        "DELETE FROM learned_facts WHERE provider = $1 AND model = $2 AND name = $3",
        [(target.provider, target.model, key) for key in keys],
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
