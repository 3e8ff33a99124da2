"""`RequestTraits`: what rules ask about a request. Each trait is computed when a rule first asks for it.

Headers and the model's name are known already. Everything else needs the body, which is read at most once,
and not at all if no word of it (`BodySearch`) allows another value than that of an empty request.
Of a request that continues a remembered conversation only the new messages are read; its traits are those of
the whole request. A body that the dialect's reader refuses has no such traits: its upstream may accept it, so
this is no error.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache, partial
from math import inf
from typing import Any, Generic, Self, TypeVar, overload

from dragoman.agents import ClassifiedBody, ClassSign, ClientIdentity, RequestClass, classify
from dragoman.agents.instructions import (
    MODEL_TAG_TEXTS,
    PROJECT_TEXTS,
    Instructions,
    find_last_user_text,
)
from dragoman.config.provider import remove_alias
from dragoman.dialects.forwarding import ContentName
from dragoman.hub.blocks import Media, Tool, ToolCall
from dragoman.hub.errors import DragomanError
from dragoman.hub.request import Effort, Message, Request, find_block_kinds, has_image, list_declared_tools
from dragoman.pipeline.body_search import find_word
from dragoman.pipeline.plan import RequestPlan
from dragoman.pipeline.reading import AbridgedRequest
from dragoman.tokens.tokenizers import find_tokenizer

#: The common name of the vendors' tools that search the web.
_WEB_SEARCH = "web_search"


Value = TypeVar("Value")


class Trait(Generic[Value]):
    """A trait that is computed when it is first asked for.

    Unlike `functools.cached_property` of Python 3.11 it takes no lock, which took longer than most traits.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, traits: None, kind: type) -> Self: ...

    @overload
    def __get__(self, traits: "RequestTraits", kind: type) -> Value: ...

    def __get__(self, traits: "RequestTraits | None", kind: type) -> Value | Self:
        if traits is None:
            return self
        value = traits.__dict__[self._name] = self._compute(traits)
        return value


@lru_cache(maxsize=1024)
def _find_words(texts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(map(find_word, texts))


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
        """The model name of the client, without the prefix of an alias."""
        return remove_alias(self._plan.model)

    @property
    def headers(self) -> Mapping[str, str]:
        return self._plan.metadata.headers

    @property
    def path(self) -> str:
        """The part of the request's path before that of the API, such as `/claude`; or empty."""
        return self._plan.metadata.entry

    @property
    def identity(self) -> ClientIdentity:
        return self._plan.metadata.identity

    @property
    def time(self) -> datetime:
        return self._clock()

    @property
    def size(self) -> int:
        """The bytes of the body."""
        return len(self._plan.body)

    # Searched in the body, which is not read.

    def may_name_tool(self, *words: bytes) -> bool:
        """Whether the name of a tool may contain one of the words (`pipeline.body_search`)."""
        return self._plan.dialect.forwarding.renames_tools or self._may_contain(*words)

    def _may_contain(self, *words: bytes) -> bool:
        return self._plan.parts.search.may_contain(*words)

    def _may_have(self, content: ContentName) -> bool:
        words = self._plan.dialect.forwarding.content_words.get(content)
        return words is None or self._may_contain(*words)

    def _may_say(self, texts: Iterable[str]) -> bool:
        return self._may_contain(*_find_words(tuple(texts)))

    def _may_match(self, sign: ClassSign) -> bool:
        if sign.output_property:
            return self._plan.parts.settings.may_contain(find_word(sign.output_property))
        return not sign.texts or self._may_say(sign.texts)

    @Trait
    def most_tokens(self) -> float:
        """At least `tokens`; infinity if that is not known without reading the new messages."""
        bound = self._plan.parts.find_token_bound(find_tokenizer(self.model, self._plan.metadata.dialect))
        return inf if bound is None else bound

    # Read from the body.

    @Trait
    def request(self) -> Request | None:
        """The request as hub values; None if it cannot be read."""
        try:
            return self._plan.request
        except DragomanError:
            return None

    @Trait
    def _abridged(self) -> AbridgedRequest | None:
        """The part of the request that the traits need; None if the whole request is read."""
        return None if "request" in vars(self) else self._plan.abridged

    @Trait
    def _settings(self) -> Request | None:
        """The settings of the request. Its messages and tools are not all there."""
        return self._abridged.reading.request if self._abridged else self.request

    @Trait
    def _instructions(self) -> Instructions | None:
        if self._abridged is not None:
            return self._abridged.find_instructions()
        return Instructions(self.request.messages) if self.request else None

    @Trait
    def request_class(self) -> RequestClass:
        read_body = partial(getattr, self, "_classified_body")
        return classify(self.identity, self.headers, self.model, self._may_match, read_body)

    @Trait
    def _classified_body(self) -> ClassifiedBody | None:
        settings, instructions = self._settings, self._instructions
        if settings is None or instructions is None:
            return None
        text = find_last_user_text(self._messages)
        if text is None and self._abridged is not None:
            text = self._abridged.kept.find_last_user_text()
        has_tools = bool(self._declared_tools)
        return ClassifiedBody(settings.max_tokens, settings.output, has_tools, text or "", instructions)

    @Trait
    def roles(self) -> frozenset[str]:
        if not any(map(self._may_say, self._markers.values())) or self._instructions is None:
            return frozenset()
        return self._instructions.find_roles(self._markers)

    @Trait
    def project(self) -> str:
        if not self._may_say(PROJECT_TEXTS) or self._instructions is None:
            return ""
        return self._instructions.project

    @Trait
    def model_tag(self) -> tuple[str, str]:
        """The tag that names a model, and the name; see `Instructions.model_tag`."""
        if not self._may_say(MODEL_TAG_TEXTS) or self._instructions is None:
            return "", ""
        return self._instructions.model_tag

    @Trait
    def tokens(self) -> int:
        """The tokens of the prompt, by estimate; 0 if the request cannot be read."""
        if self._settings is None:
            return 0
        return self._plan.estimate_tokens(find_tokenizer(self.model, self._settings.dialect))

    @Trait
    def has_images(self) -> bool:
        if not self._may_have("images"):
            return False
        if self._abridged is not None:
            return self._abridged.has_images
        return Media in self._kinds and any(map(has_image, self._messages))

    @Trait
    def has_new_images(self) -> bool:
        """Whether there is an image after the last message of the model."""
        new = self._messages[self._last_answer + 1 :] if self._may_have("images") else ()
        return any(map(has_image, new))

    @Trait
    def wants_web_search(self) -> bool:
        if not self._may_have("web_search"):
            return False
        memo = self._abridged.history.memo if self._abridged else None
        if memo is not None and memo.wants_web_search is not None:
            return memo.wants_web_search
        tools = self._declared_tools
        found = any(tool.kind == "hosted" and tool.common_name == _WEB_SEARCH for tool in tools)
        if memo is not None:
            memo.wants_web_search = found
        return found

    @Trait
    def effort(self) -> Effort | None:
        settings = self._settings.reasoning if self._settings else None
        return settings.effort if settings else None

    @Trait
    def wants_reasoning(self) -> bool:
        settings = self._settings.reasoning if self._settings else None
        if settings is None or settings.mode == "off":
            return False
        return settings.mode is not None or bool(settings.budget) or settings.effort not in (None, "none")

    @Trait
    def tools(self) -> tuple[str, ...]:
        """The names of the declared tools."""
        return tuple(tool.name for tool in self._declared_tools)

    @Trait
    def called_tools(self) -> tuple[str, ...]:
        """The names of the tools that the last message of the model called."""
        blocks = self._messages[self._last_answer].blocks if self._last_answer >= 0 else ()
        return tuple([block.name for block in blocks if type(block) is ToolCall])

    @Trait
    def _declared_tools(self) -> tuple[Tool, ...]:
        if self._abridged is not None:
            # No message declares tools: such requests are read as a whole.
            return self._abridged.history.tools
        return list_declared_tools(self.request, self._kinds) if self.request else ()

    @Trait
    def _kinds(self) -> set[type]:
        return find_block_kinds(self._messages)

    @Trait
    def _messages(self) -> tuple[Message, ...]:
        """The messages; of an abridged request those from one of the last answers on."""
        if self._abridged is not None:
            return self._abridged.reading.messages
        return self.request.messages if self.request else ()

    @Trait
    def _last_answer(self) -> int:
        """The index of the model's last message; -1 if there is none."""
        messages = self._messages
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].role == "assistant":
                return index
        return -1

    @property
    def has_roles(self) -> bool:
        """Whether the roles are known."""
        return "roles" in vars(self)

    def list_known(self) -> dict[str, str]:
        """The class, the roles and the project, as far as rules have asked for them. Nothing is read here."""
        known = vars(self)
        found = {
            "class": known.get("request_class", ""),
            "role": ", ".join(sorted(known.get("roles", ()))),
            "project": known.get("project", ""),
        }
        return {name: value for name, value in found.items() if value}
