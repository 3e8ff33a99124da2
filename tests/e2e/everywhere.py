"""One scripted exchange for every client dialect with every upstream dialect, all at the same time."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.dialects.registry import dialect_named
from tests.e2e.asking import Told, ask
from tests.e2e.clients.python_tools import GRIPS
from tests.e2e.gateway import Gateway
from tests.e2e.stage import Stage
from tests.e2e.upstream.conversation import Conversation
from tests.e2e.upstream.script import Manner, Step, Turn
from tests.e2e.upstream.server import UPSTREAM_KEY
from tests.e2e.upstream.voices.registry import DIALECTS

ANSWER = "This is the whole answer."
GOOD = Turn(text=ANSWER, reasoning="A thought.")
#: Seconds of silence that the providers of most routes accept: more than a busy machine needs for any answer.
PATIENCE = 60.0
#: Seconds of silence that the `hasty` routes accept, for tests of a silence beyond the limit.
HASTE = 2.0
CONFIG = """\
[server]
ping = 0.7

[providers.first]
dialect = "{dialect}"
base_url = "{first}"
api_key = "{key}"
retries = 1
timeouts = {{ connect = {patience}, first_byte = {patience}, idle = {patience} }}

[providers.hasty]
dialect = "{dialect}"
base_url = "{first}"
api_key = "{key}"
retries = 1
timeouts = {{ first_byte = {haste}, idle = {haste} }}

[providers.second]
dialect = "{dialect}"
base_url = "{second}"
api_key = "{key}"
retries = 1

[[routes]]
match = "alone-*"
target = "first/*"

[[routes]]
match = "renamed-*"
target = "first/mock-large"

[[routes]]
match = "pair-*"
target = ["first/*", "second/*"]

[[routes]]
match = "hasty-*"
target = "hasty/*"

[[routes]]
match = "hastyrenamed-*"
target = "hasty/mock-large"

[[routes]]
match = "hastypair-*"
target = ["hasty/*", "second/*"]
"""


class Happening(msgspec.Struct, frozen=True):
    """One exchange: who asked whom, what the client was told, and what the upstream saw."""

    client: str
    upstream: str
    route: str
    told: Told
    conversation: Conversation

    @property
    def name(self) -> str:
        return f"{self.client} -> {self.upstream} ({self.route})"

    def requests(self, provider: str = "first") -> int:
        return len(self.conversation.from_provider(provider))

    def violations(self) -> list[str]:
        """What the dialect's own judge says about the stream that the client got."""
        if self.told.status != 200 or not self.told.headers["content-type"].startswith("text/event-stream"):
            return []
        return [str(found) for found in dialect_named(self.client).check_stream(self.told.raw)]


def faulty_gateway(stage: Stage, dialect: str) -> Gateway:
    """A gateway with two providers of one dialect; the first also has an entry with short limits."""
    config = CONFIG.format(
        dialect=dialect,
        first=stage.upstream.base_url(dialect, "first"),
        second=stage.upstream.base_url(dialect, "second"),
        key=UPSTREAM_KEY,
        patience=PATIENCE,
        haste=HASTE,
    )
    return stage.gateway(f"faults-{dialect}", config)


#: The routes with one target, and those that also give the model another name.
RENAMED = {"alone": "renamed", "hasty": "hastyrenamed"}
Steps = Sequence[Step] | Mapping[str, Sequence[Step]]


def everywhere(
    stage: Stage,
    steps: Steps,
    *,
    route: str = "alone",
    manner: Manner | None = None,
    stream: bool = True,
) -> list[Happening]:
    """Every pair of dialects; where both are the same, also with a renamed model, which is written anew."""
    pairs = [(client, upstream, route) for client in DIALECTS for upstream in DIALECTS]
    if route in RENAMED:
        pairs += [(dialect, dialect, RENAMED[route]) for dialect in DIALECTS]
    gateways = {dialect: faulty_gateway(stage, dialect).url for dialect in DIALECTS}

    async def one(client: str, upstream: str, route: str) -> Happening:
        conversation = stage.upstream.open(steps, GRIPS, manner)
        # A name of its own, so that no earlier failure of a target is remembered.
        model = f"{route}-{conversation.key}"
        told = await ask(client, gateways[upstream], model, f"This is {conversation.key}.", stream=stream)
        return Happening(client, upstream, route, told, conversation)

    async def all_of_them() -> list[Happening]:
        return list(await asyncio.gather(*(one(*pair) for pair in pairs)))

    return stage.run(all_of_them())
