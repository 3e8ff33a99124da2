"""`[providers.NAME]`: a provider with its facts about models, and the name of a target. See `model`."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Annotated, Literal, TypeVar

import msgspec

from dragoman.config.settings import ClaudeCodeSessions, Secret, Timeouts
from dragoman.config.value_kinds import (
    FLAG_OR_TEXT,
    TABLE,
    TABLES,
    TEXT_OR_TEXTS,
    TEXTS,
    integer,
    one_name_of,
)
from dragoman.dialects.registry import DIALECTS
from dragoman.governance.settings import Governance
from dragoman.pipeline.payload import PayloadRule
from dragoman.providers.facts import Doc
from dragoman.providers.local_programs import LOCAL_PROGRAMS, LocalProgram
from dragoman.providers.profile import Profile

_T = TypeVar("_T")


def list_dialects() -> tuple[str, ...]:
    """What `dialect` of a provider may be: an API of the dialect registry, or a local program."""
    return (*DIALECTS, *LOCAL_PROGRAMS)


#: The name of the source for facts in the configuration file.
CONFIG_SOURCE = "config"
#: Models of one provider about which merged facts are kept.
MAX_MODELS = 1024
#: Facts by model name or pattern.
FactsByModel = dict[str, dict[str, object]]


class FactLayer(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from one source, such as a preset.

    `is_stated` is false for the catalogue: its facts do not apply to a client that uses the vendor's own
    dialect and the model's own name. Such a client knows the model, and its bytes are forwarded unchanged.
    """

    source: str
    models: FactsByModel
    is_stated: bool = True


class Provider(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`[providers.NAME]`: a server or program that answers requests."""

    name: str
    preset: Annotated[
        str, Doc("A known provider that gives the default dialect, address, key and facts.")
    ] = ""
    dialect: Annotated[str, one_name_of(list_dialects), Doc("The API of the provider, or a local program.")]
    base_url: Annotated[str, Doc("The API's address, with or without the version segment.")] = ""
    keys: Annotated[
        tuple[Secret, ...],
        TEXT_OR_TEXTS,
        Doc("A literal or `env:NAME`; of several keys, each session uses one."),
    ] = msgspec.field(name="api_key", default=())
    auth: Annotated[
        Literal["key", "client"],
        Doc("Whose credential the provider gets: `api_key`, or the one that the client sends."),
    ] = "key"
    headers: Annotated[
        dict[str, Secret], TABLE, Doc("Further headers of every request; values may be `env:NAME`.")
    ] = {}
    timeouts: Annotated[Timeouts, TABLE, Doc("Time limits, in seconds.")] = Timeouts()
    proxy: Annotated[str, Doc("The address of an HTTP proxy; may be `env:NAME`.")] = ""
    verify: Annotated[
        bool | str, FLAG_OR_TEXT, Doc("Verify certificates; or the path of a file of trusted certificates.")
    ] = True
    retries: Annotated[
        int, integer(0, 20), Doc("The most further tries at this provider before the next target.")
    ] = 2
    heal: Annotated[
        bool, Doc("Change a refused request as the refusal says, retry it, and remember the change.")
    ] = True
    list_models: Annotated[
        bool, Doc("Ask the provider for its models, and list them to clients beside the configured names.")
    ] = True
    tools: Annotated[
        tuple[str, ...] | None,
        TEXTS,
        Doc("The gateway's own tools for its models; default: all in `[tools]`."),
    ] = None
    steps: Annotated[
        tuple[str, ...], TEXTS, Doc("Transformation steps for its requests and replies, in their order.")
    ] = ()
    #: Only the facts in the file. `layers` has the others.
    models: Annotated[
        FactsByModel, TABLE, Doc("Facts about models, by name; `*` matches any part of a name.")
    ] = {}
    governance: Annotated[Governance, TABLE, Doc("The governance of the tool calls of all its models.")] = (
        Governance()
    )
    payload: Annotated[
        tuple[PayloadRule, ...], TABLES, Doc("Edits of the JSON of its requests, in their order.")
    ] = ()
    sessions: Annotated[
        ClaudeCodeSessions,
        TABLE,
        Doc('The sessions of Claude Code; only with `dialect = "claude_code"`.'),
    ] = ClaudeCodeSessions()
    #: Facts from other sources, in ascending precedence. The facts in the file have the highest.
    layers: tuple[FactLayer, ...] = ()
    #: Where the values of `governance` come from, for `dragoman models show`.
    governance_sources: dict[str, str] = {}
    #: Changes of `governance` for some models, by name or pattern.
    model_governance: FactsByModel = {}
    #: Why requests to the provider cannot succeed, such as a variable that is not set; empty: they can.
    obstacle: str = ""

    def __repr__(self) -> str:
        # Without the addresses: that of a proxy may contain a password.
        return f"Provider({self.name!r}, {self.dialect!r})"

    @property
    def program(self) -> LocalProgram | None:
        """The local program that answers; None if the provider is called over HTTP."""
        return LOCAL_PROGRAMS.get(self.dialect)

    @property
    def uses_client_credential(self) -> bool:
        """Whether requests carry the client's own credential, and none of the gateway's."""
        return self.auth == "client"

    @cached_property
    def keeps_sessions(self) -> bool:
        """Whether the provider keeps sessions between requests, so that it needs the client's headers."""
        program = LOCAL_PROGRAMS.get(self.dialect)
        return program is not None and program.has_sessions

    @cached_property
    def wire_dialect(self) -> str:
        """The API of the requests to the provider, also if it is a local program."""
        program = LOCAL_PROGRAMS.get(self.dialect)
        return program.wire_dialect if program else self.dialect

    @property
    def is_stand_in(self) -> bool:
        """Whether it answers in place of any model, as the embedded model does."""
        return self.program is not None and self.program.is_stand_in

    def list_sources(self, model: str) -> Iterator[tuple[str, dict[str, object]]]:
        """The facts about a model by source, in ascending precedence."""
        for layer in self.layers:
            yield layer.source, _merge_matches(layer.models, model)
        yield CONFIG_SOURCE, _merge_matches(self.models, model)

    @cached_property
    def _facts(self) -> dict[tuple[str, bool], Mapping[str, object]]:
        """The results of `merge_facts`."""
        return {}

    @cached_property
    def _profiles(self) -> dict[tuple[str, bool], Profile]:
        """The results of `build_profile`."""
        return {}

    @cached_property
    def _stated(self) -> dict[tuple[str, bool], bool]:
        """The results of `has_stated_facts`."""
        return {}

    @cached_property
    def _governances(self) -> dict[tuple[str, bool], Governance]:
        """The results of `find_governance` for routes that change nothing."""
        return {}

    def merge_facts(self, model: str, *, only_stated: bool = False) -> Mapping[str, object]:
        """The facts about a model from all sources. Later sources override earlier ones.

        Within a source, an entry with the model's exact name overrides patterns.
        `only_stated`: from the sources that apply to every client; see `FactLayer`.
        """
        known = self._facts.get((model, only_stated))
        if known is None:
            known = self._merge_layers(model, only_stated=only_stated)
            _keep(self._facts, (model, only_stated), known)
        return known

    def _merge_layers(self, model: str, *, only_stated: bool) -> dict[str, object]:
        layers = [layer.models for layer in self.layers if layer.is_stated or not only_stated]
        merged: dict[str, object] = {}
        for models in (*layers, self.models):
            merged |= _merge_matches(models, model)
        return merged

    def find_fact(self, name: str, model: str, *, only_stated: bool = False) -> object:
        """One fact about a model, from its strongest source; None if no source has it.

        `only_stated`: from the sources that apply to every client; see `FactLayer`.
        """
        return self.merge_facts(model, only_stated=only_stated).get(name)

    def has_stated_facts(self, model: str) -> bool:
        """Whether any source has facts about the model that apply to every client; see `FactLayer`."""
        known = self._stated.get((model, True))
        if known is None:
            stated = [layer.models for layer in self.layers if layer.is_stated]
            known = any(_find_matches(tuple(models), model) for models in (*stated, self.models))
            _keep(self._stated, (model, True), known)
        return known

    def build_profile(self, model: str, *, only_stated: bool = False) -> Profile:
        """The profile of one of the provider's models. `only_stated`: see `merge_facts`."""
        profile = self._profiles.get((model, only_stated))
        if profile is None:
            facts = self.merge_facts(model, only_stated=only_stated)
            profile = Profile(dialect=self.wire_dialect, provider=self.name, model=model, **facts)
            _keep(self._profiles, (model, only_stated), profile)
        return profile

    def find_payload(self, model: str, route: tuple[PayloadRule, ...] = ()) -> tuple[PayloadRule, ...]:
        """The payload rules for one of the provider's models, then those of the route."""
        return tuple(rule for rule in (*self.payload, *route) if fnmatchcase(model, rule.models))

    def find_model_governance(self, model: str) -> dict[str, object]:
        """The changes of `governance` for one model."""
        return _merge_matches(self.model_governance, model)

    def find_governance(self, model: str, route: Mapping[str, object]) -> Governance:
        """The governance of a model's tool calls, with the changes of the model and of the route."""
        if route:
            return self._build_governance(model, route)
        known = self._governances.get((model, False))
        if known is None:
            known = self._build_governance(model, {})
            _keep(self._governances, (model, False), known)
        return known

    def _build_governance(self, model: str, route: Mapping[str, object]) -> Governance:
        changes = {**self.find_model_governance(model), **route}
        if self.find_fact("function_calling", model) is False:
            # The server refuses tools, so describing them as text is the only way to use any.
            changes["contract"] = True
        return msgspec.structs.replace(self.governance, **changes) if changes else self.governance


def _keep(known: dict[tuple[str, bool], _T], key: tuple[str, bool], value: _T) -> None:
    """Keep a value about a model. Bounded, because clients choose the model names."""
    if len(known) >= MAX_MODELS:
        known.clear()
    known[key] = value


def _merge_matches(models: FactsByModel, model: str) -> dict[str, object]:
    merged: dict[str, object] = {}
    for name in _find_matches(tuple(models), model) if models else ():
        merged |= models[name]
    return merged


# Bounded, because clients choose the model names.
@lru_cache(maxsize=MAX_MODELS)
def _find_matches(patterns: tuple[str, ...], model: str) -> tuple[str, ...]:
    """The patterns that match `model`, in their order. One that is equal to `model` comes last: it wins."""
    matches = [pattern for pattern in patterns if pattern != model and fnmatchcase(model, pattern)]
    return (*matches, model) if model in patterns else tuple(matches)


#: Claude Code lists only models of a gateway whose id contains `claude` or `anthropic`. In the list that it
#: gets, other names have this prefix.
ALIAS_PREFIX = "claude:"


def remove_alias(model: str) -> str:
    """The model name of the configuration, from a name that a client has read in a list of aliases."""
    return model.removeprefix(ALIAS_PREFIX)


class TargetName(msgspec.Struct, frozen=True):
    """A provider and the name of a model there; `*`: the name that the client sent."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"
