"""The interface of a tool that the gateway runs itself."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar

import msgspec

from dragoman.hub.blocks import Citation, HostedCall, HostedResult, Media, Text, Tool
from dragoman.hub.fold import Reply
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts

#: Sends a request to the target of this name (`provider/model`) and returns its whole reply.
AskModel = Callable[[str, Request], Awaitable[Reply]]


class ToolFailed(Exception):
    """A tool cannot give a result. The model gets the message, so it contains no secrets."""


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool does to one request: functions for the model, and changes of the request itself."""

    functions: tuple[Tool, ...]
    #: The changed request, without the functions; None: nothing else changes.
    request: Request | None = None
    #: Further names that the tool runs, if the model calls one: those that a result of it names.
    undeclared: tuple[str, ...] = ()
    #: Changes a message with results of the gateway's tools for the model, such as pictures that it cannot
    #: see. A later request of the conversation has the unchanged results.
    edit_results: Callable[[Message], Message] | None = None
    #: Anything that the runs for this request need.
    context: object = None


class ToolRun(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a function. `name` is the name in the offer."""

    name: str
    #: The caller's name: what one caller gets must not come from another one.
    owner: str = ""
    #: For blocks that show the run: the same for the same call, different for different ones.
    id: str = ""
    arguments: dict[str, object]
    context: object = None
    ask_model: AskModel

    def text(self, argument: str) -> str:
        """An argument that must be a text. Raises `ToolFailed` if it is missing."""
        value = self.arguments.get(argument)
        if not isinstance(value, str) or not value.strip():
            raise ToolFailed(f"the argument `{argument}` must be a text that is not empty")
        return value.strip()


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    content: tuple[Text | Media, ...] = ()
    is_error: bool = False
    #: Blocks that show the client what was done, if its dialect has them.
    shown: tuple[HostedCall | HostedResult, ...] = ()
    #: Sources of the result. The model cites source n of the reply as `[n]`.
    sources: tuple[Citation, ...] = ()


class GatewayTool(ABC):
    """A tool that the gateway runs itself. One object serves all requests, so it keeps no state of them."""

    #: Whether results may hold pictures.
    returns_pictures: ClassVar[bool] = False

    async def prepare(self) -> None:  # noqa: B027 (most tools need no preparation)
        """Called before `offer`, for instance to list the tools of a server. It must return fast."""

    @abstractmethod
    def offer(self, request: Request, target: TargetFacts) -> ToolOffer | None:
        """What the tool adds to a request for this target; None if it does not apply. Pure."""

    def offer_for_results(self, target: TargetFacts) -> ToolOffer | None:
        """What the tool adds to a request in which it does not apply, but whose tools may return pictures."""
        return None

    def show_failure(self, run: ToolRun, reason: str) -> tuple[HostedCall | HostedResult, ...]:
        """Blocks that show the client a run that failed, took too long or was not allowed."""
        return ()

    @abstractmethod
    async def run(self, run: ToolRun) -> ToolOutcome | str:
        """Run one call. An exception, or a run that takes too long, becomes an error for the model."""

    async def close(self) -> None:  # noqa: B027 (most tools hold nothing open)
        """Release connections and processes."""


def build_function(name: str, description: str, properties: dict[str, object], *required: str) -> Tool:
    """A function for the model. `properties` are JSON schemas by argument name."""
    schema: dict[str, object] = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name=name, description=description, schema=schema)
