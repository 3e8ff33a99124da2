"""`RequestTraits`: what rules ask about a request. Each trait is computed when a rule first asks for it.

Headers and the model's name are known already. Everything else needs the body, which is read at most once.
Of a request that continues a remembered conversation only the new messages are read; its traits are those of
the whole request. A body that the dialect's reader refuses has no such traits: its upstream may accept it, so
this is no error.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property

from dragoman.agents import ClientIdentity, RequestClass, classify
from dragoman.agents.instructions import Instructions
from dragoman.hub.blocks import Media, Tool, ToolCall
from dragoman.hub.errors import DragomanError
from dragoman.hub.request import Effort, Message, Request, find_block_kinds, has_image, list_declared_tools
from dragoman.pipeline.plan import RequestPlan
from dragoman.pipeline.reading import AbridgedRequest
from dragoman.tokens.tokenizers import find_tokenizer

#: The common name of the vendors' tools that search the web.
_WEB_SEARCH = "web_search"


class RequestTraits:
    """The traits of one request. A Python function of a rule gets this object.

    `key` is the name of the client key. `roles` are the markers of each role. `clock` gives the local time.
    """

    def __init__(
        self,
        plan: RequestPlan,
        *,
        key: str = "",
        roles: Mapping[str, tuple[str, ...]] | None = None,
        clock: Callable[[], datetime],
    ) -> None:
        self._plan = plan
        self.key = key
        self._markers = roles or {}
        self._clock = clock

    # Known without the body.

    @property
    def model(self) -> str:
        return self._plan.model

    @property
    def headers(self) -> Mapping[str, str]:
        return self._plan.metadata.headers

    @property
    def path(self) -> str:
        """The part of the request's path before that of the API, such as `/claude`; or empty."""
        return self._plan.metadata.entry

    @cached_property
    def identity(self) -> ClientIdentity:
        return self._plan.metadata.identity

    @property
    def time(self) -> datetime:
        return self._clock()

    @property
    def size(self) -> int:
        """The bytes of the body."""
        return len(self._plan.body)

    # Read from the body.

    @cached_property
    def request(self) -> Request | None:
        """The request as hub values; None if it cannot be read."""
        try:
            return self._plan.request
        except DragomanError:
            return None

    @cached_property
    def _abridged(self) -> AbridgedRequest | None:
        """The part of the request that the traits need; None if the whole request is read."""
        return None if "request" in vars(self) else self._plan.abridged

    @cached_property
    def _known(self) -> Request | None:
        return self._abridged.request if self._abridged else self.request

    @cached_property
    def _instructions(self) -> Instructions | None:
        if self._abridged is not None:
            return self._abridged.find_instructions()
        return Instructions(self.request) if self.request else None

    @cached_property
    def request_class(self) -> RequestClass:
        return classify(self.identity, self.headers, self.model, self._known, self._instructions)

    @cached_property
    def roles(self) -> frozenset[str]:
        return self._instructions.find_roles(self._markers) if self._instructions else frozenset()

    @cached_property
    def project(self) -> str:
        return self._instructions.project if self._instructions else ""

    @cached_property
    def model_tag(self) -> tuple[str, str]:
        """The tag that names a model, and the name; see `Instructions.model_tag`."""
        return self._instructions.model_tag if self._instructions else ("", "")

    @cached_property
    def tokens(self) -> int:
        """The tokens of the prompt, by estimate; 0 if the request cannot be read."""
        if self._known is None:
            return 0
        return self._plan.estimate_tokens(find_tokenizer(self.model, self._known.dialect))

    @cached_property
    def has_images(self) -> bool:
        if self._abridged is not None:
            return self._abridged.has_images
        return Media in self._kinds and any(map(has_image, self._messages))

    @cached_property
    def has_new_images(self) -> bool:
        """Whether there is an image after the last message of the model."""
        return any(map(has_image, self._messages[self._last_answer + 1 :]))

    @cached_property
    def wants_web_search(self) -> bool:
        return any(tool.kind == "hosted" and tool.common_name == _WEB_SEARCH for tool in self._declared_tools)

    @cached_property
    def effort(self) -> Effort | None:
        settings = self._known.reasoning if self._known else None
        return settings.effort if settings else None

    @cached_property
    def wants_reasoning(self) -> bool:
        settings = self._known.reasoning if self._known else None
        if settings is None or settings.mode == "off":
            return False
        return settings.mode is not None or bool(settings.budget) or settings.effort not in (None, "none")

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The names of the declared tools."""
        return tuple(tool.name for tool in self._declared_tools)

    @cached_property
    def called_tools(self) -> tuple[str, ...]:
        """The names of the tools that the last message of the model called."""
        blocks = self._messages[self._last_answer].blocks if self._last_answer >= 0 else ()
        return tuple(block.name for block in blocks if isinstance(block, ToolCall))

    @cached_property
    def _declared_tools(self) -> tuple[Tool, ...]:
        if self._abridged is not None:
            # No message declares tools: such requests are read as a whole.
            return self._abridged.request.tools
        return list_declared_tools(self.request, self._kinds) if self.request else ()

    @cached_property
    def _kinds(self) -> set[type]:
        return find_block_kinds(self._messages)

    @property
    def _messages(self) -> tuple[Message, ...]:
        return self._known.messages if self._known else ()

    @cached_property
    def _last_answer(self) -> int:
        """The index of the model's last message; -1 if there is none."""
        messages = self._messages
        return next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "assistant"), -1)

    def list_known(self) -> dict[str, str]:
        """The class, the roles and the project, as far as rules have asked for them. Nothing is read here."""
        known = vars(self)
        found = {
            "class": known.get("request_class", ""),
            "role": ", ".join(sorted(known.get("roles", ()))),
            "project": known.get("project", ""),
        }
        return {name: value for name, value in found.items() if value}
