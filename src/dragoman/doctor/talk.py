"""A conversation with one model, through the gateway, within a budget of tokens."""

from collections.abc import Sequence
from itertools import count

import msgspec

from dragoman.config.model import Config, Models, Provider, Server, TargetName
from dragoman.config.prices import prices_of
from dragoman.doctor.finding import Facts
from dragoman.doctor.heard import DIALECT, Heard
from dragoman.doctor.tap import Listener, Tap
from dragoman.exchange.ask import Ask
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.usage import Usage
from dragoman.providers.prices import cost
from dragoman.upstream.port import Upstream

#: Room for an answer; models that reason need some before they say a word.
ROOM = 1_024
#: A guess, for servers that do not count.
BYTES_PER_TOKEN = 4

SYSTEM = "You are being tested by a program. Do exactly what is asked, and say nothing else."

Message = dict[str, object]


class BudgetSpent(Exception):
    """The next question could cost more than is left."""


class Talk:
    """`upstream` answers for the target's provider, and stays open. Nothing is tried twice."""

    def __init__(self, provider: Provider, model: str, upstream: Upstream, *, budget: int) -> None:
        self.target = TargetName(provider.name, model)
        self.provider = msgspec.structs.replace(provider, retries=0)
        self.budget = budget
        self.tokens = 0
        self.micro_dollars = 0
        #: The last answer that came.
        self.last: Heard | None = None
        self._tap = Tap(upstream)
        self._facts: Facts = {}
        self._numbers = count(1)
        self._gateway = Gateway(self._config(), upstreams={provider.name: self._tap})

    def assume(self, facts: Facts) -> None:
        """From now on these facts hold, beside what is known of the model."""
        if facts != self._facts:
            self._facts = facts
            self._gateway.reload(self._config())

    async def ask(
        self,
        *messages: Message,
        room: int = ROOM,
        system: str | Sequence[Message] = SYSTEM,
        model: str = "",
        **settings: object,
    ) -> Heard:
        """Ask, and hear the answer to its end. `settings` are further members of the request."""
        name = str(TargetName(self.target.provider, model or self.target.model))
        question = {
            "model": name,
            "max_tokens": room,
            "stream": True,
            "system": system,
            "messages": list(messages),
            **settings,
        }
        body = msgspec.json.encode(question)
        if self.tokens + len(body) // BYTES_PER_TOKEN + room > self.budget:
            raise BudgetSpent
        client = Listener()
        ask = Ask(dialect=DIALECT, body=body, request_id=f"doctor-{next(self._numbers)}")
        exchange = Exchange(self._gateway, ask, client)
        await exchange.run()
        self.last = heard = Heard(
            exchange.record,
            bytes(client.body),
            sent=self._tap.sent,
            raw=bytes(self._tap.heard),
            content_type=self._tap.content_type,
            wire=self.provider.wire_dialect,
        )
        self._count(heard)
        return heard

    async def close(self) -> None:
        await self._gateway.close()

    def _config(self) -> Config:
        provider = self.provider
        model = self.target.model
        models: Models = {**provider.models, model: {**provider.models.get(model, {}), **self._facts}}
        examined = msgspec.structs.replace(provider, models=models)
        # Silence is nothing to comfort anybody about here.
        return Config(server=Server(ping=0.0), providers={provider.name: examined})

    def _count(self, heard: Heard) -> None:
        told = heard.usage
        usage = msgspec.structs.replace(
            told,
            input=len(heard.sent) // BYTES_PER_TOKEN if told.input is None else told.input,
            output=len(heard.text) // BYTES_PER_TOKEN if told.output is None else told.output,
        )
        if heard.failure is not None and told == Usage():
            return
        self.tokens += usage.total
        prices = prices_of(self._gateway.config, self.target)
        self.micro_dollars += cost(prices, usage) if prices else 0


def user(content: str | Sequence[Message]) -> Message:
    return {"role": "user", "content": content if isinstance(content, str) else list(content)}


def answered(heard: Heard, **results: str) -> tuple[Message, Message]:
    """The model's own turn, unchanged, and the results of its calls by the tools' names."""
    turn: Message = {"role": "assistant", "content": heard.blocks}
    given: list[Message] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": results.get(call.name, "done")}
        for call in heard.calls
    ]
    return turn, user(given)
