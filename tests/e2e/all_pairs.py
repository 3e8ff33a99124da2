"""One scripted exchange for every client dialect with every upstream dialect, all at the same time."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.dialects.registry import dialect_named
from tests.e2e.asking import ClientReply, ask
from tests.e2e.clients.python_tools import GRIPS
from tests.e2e.environment import Environment
from tests.e2e.gateway import Gateway
from tests.e2e.upstream.conversation import Conversation
from tests.e2e.upstream.reply_writers.registry import DIALECTS
from tests.e2e.upstream.script import Manner, Step, Turn
from tests.e2e.upstream.server import UPSTREAM_KEY

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


class PairResult(msgspec.Struct, frozen=True):
    """One exchange: client and upstream, what the client received, and what the upstream received."""

    client: str
    upstream: str
    route: str
    reply: ClientReply
    conversation: Conversation

    @property
    def name(self) -> str:
        return f"{self.client} -> {self.upstream} ({self.route})"

    def requests(self, provider: str = "first") -> int:
        return len(self.conversation.from_provider(provider))

    def violations(self) -> list[str]:
        """What the dialect's stream check finds in the stream that the client got."""
        if self.reply.status != 200 or not self.reply.headers["content-type"].startswith("text/event-stream"):
            return []
        return [str(found) for found in dialect_named(self.client).check_stream(self.reply.raw)]


def faulty_gateway(environment: Environment, dialect: str) -> Gateway:
    """A gateway with two providers of one dialect; the first also has an entry with short limits."""
    config = CONFIG.format(
        dialect=dialect,
        first=environment.upstream.base_url(dialect, "first"),
        second=environment.upstream.base_url(dialect, "second"),
        key=UPSTREAM_KEY,
        patience=PATIENCE,
        haste=HASTE,
    )
    return environment.gateway(f"faults-{dialect}", config)


#: The routes with one target, and those that also give the model another name.
RENAMED = {"alone": "renamed", "hasty": "hastyrenamed"}
Steps = Sequence[Step] | Mapping[str, Sequence[Step]]


def run_all_pairs(
    environment: Environment,
    steps: Steps,
    *,
    route: str = "alone",
    manner: Manner | None = None,
    stream: bool = True,
) -> list[PairResult]:
    """Every pair of dialects; where both are the same, also with a renamed model, which is written anew."""
    pairs = [(client, upstream, route) for client in DIALECTS for upstream in DIALECTS]
    if route in RENAMED:
        pairs += [(dialect, dialect, RENAMED[route]) for dialect in DIALECTS]
    gateways = {dialect: faulty_gateway(environment, dialect).url for dialect in DIALECTS}

    async def one(client: str, upstream: str, route: str) -> PairResult:
        conversation = environment.upstream.open(steps, GRIPS, manner)
        # A name of its own, so that no earlier failure of a target is remembered.
        model = f"{route}-{conversation.key}"
        reply = await ask(client, gateways[upstream], model, f"This is {conversation.key}.", stream=stream)
        return PairResult(client, upstream, route, reply, conversation)

    async def all_of_them() -> list[PairResult]:
        return list(await asyncio.gather(*(one(*pair) for pair in pairs)))

    return environment.run(all_of_them())
