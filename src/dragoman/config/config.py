"""The configuration as values. The fields are the keys of the file: name, type, default and meaning.

A new key is a new field with a `Doc`; `load` checks it and converts its value by the field's type, and
`dragoman config keys` and the documentation list it. Only a value that needs more than a conversion, such as
a secret, needs code in `load` or `load_provider`.
A field whose name in the file differs has `msgspec.field(name=...)`. Fields without a `Doc` are not keys.
Secrets are `Secret`s, which never show their value.
"""

import os
from functools import cache
from typing import Annotated, Literal, NamedTuple

import msgspec

from dragoman.config.agents import SessionLimits, SignInSettings
from dragoman.config.governance import governance_keys
from dragoman.config.mistakes import ConfigWarning
from dragoman.config.prompts import PromptRule
from dragoman.config.provider import Provider, TargetName
from dragoman.config.rules import DEFAULT_ROLES, ROLES, Rule, RuleConditions
from dragoman.config.settings import (
    ClaudeCodeSessions,
    RecordLevel,
    RecordSettings,
    ResponsesSettings,
    ServerSettings,
    StateSettings,
    TelemetrySettings,
    Timeouts,
)
from dragoman.config.steps import StepSettings
from dragoman.config.tools import (
    ImageToolSettings,
    McpServerSettings,
    SearchMapping,
    ToolsSettings,
    WebFetchSettings,
    WebSearchSettings,
)
from dragoman.config.value_kinds import TABLE, TABLES, TEXT_OR_TEXTS, TEXTS, WEIGHTS, ConfigKey, read_keys
from dragoman.governance.settings import Governance
from dragoman.pipeline.payload import PayloadRule
from dragoman.providers.facts import Doc, Facts


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`[[routes]]`: a model name, or a pattern of names, and the targets in the order of trial."""

    match: Annotated[str, Doc("The model name that clients send; `*` matches any part of a name.")]
    targets: Annotated[
        tuple[TargetName, ...],
        TEXT_OR_TEXTS,
        Doc("`provider/model`; of several, the next is tried if one fails."),
    ] = msgspec.field(name="target")
    order: Annotated[
        Literal["listed", "round_robin", "weighted", "least_busy", "fastest", "cheapest"],
        Doc("Which target is tried first: the first of the list, or by turns, load, speed or cost."),
    ] = "listed"
    weights: Annotated[
        tuple[int, ...], WEIGHTS, Doc("The share of each target for `weighted`, in the order of `target`.")
    ] = ()
    sticky: Annotated[
        float, Doc("Seconds for which a session keeps its target, so that prompt caches last; 0: never.")
    ] = 300.0
    hedge: Annotated[
        float, Doc("Seconds without content after which the next target is called too; 0: never.")
    ] = 0.0
    on_overflow: Annotated[
        tuple[TargetName, ...], TEXT_OR_TEXTS, Doc("Targets for requests that are too long for the others.")
    ] = ()
    on_refusal: Annotated[
        tuple[TargetName, ...], TEXT_OR_TEXTS, Doc("Targets for requests that a model refuses to answer.")
    ] = ()
    effort_suffix: Annotated[
        bool, Doc("Names that end in `-low`, `-high` and so on match too, and set the effort of reasoning.")
    ] = False
    strict: Annotated[bool, Doc("Refuse requests that cannot be translated without loss.")] = False
    heal: Annotated[bool, Doc("Change and retry refused requests; see `heal` of a provider.")] = True
    tools: Annotated[
        tuple[str, ...] | None,
        TEXTS,
        Doc("The gateway's own tools for these requests; default: those of the provider."),
    ] = None
    steps: Annotated[
        tuple[str, ...], TEXTS, Doc("Transformation steps for these requests, after the provider's.")
    ] = ()
    payload: Annotated[
        tuple[PayloadRule, ...], TABLES, Doc("Edits of the JSON of these requests, after the provider's.")
    ] = ()
    record: Annotated[
        RecordLevel | None, Doc("How much of these exchanges is recorded; see `record` of `[records]`.")
    ] = None
    #: Changes of the gateway's limits.
    session_limits: Annotated[
        dict[str, object], TABLE, Doc("Limits of sessions that differ for these requests.")
    ] = {}
    #: Changes of the provider's and the model's governance.
    governance: Annotated[
        dict[str, object], TABLE, Doc("The governance of the tool calls in the replies.")
    ] = {}


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration file."""

    server: Annotated[ServerSettings, TABLE, Doc("The gateway itself.")] = ServerSettings()
    state: Annotated[StateSettings, TABLE, Doc("The database that several gateways share.")] = StateSettings()
    responses: Annotated[ResponsesSettings, TABLE, Doc("The stored responses of the Responses API.")] = (
        ResponsesSettings()
    )
    telemetry: Annotated[TelemetrySettings, TABLE, Doc("Metrics and traces.")] = TelemetrySettings()
    tools: Annotated[ToolsSettings, TABLE, Doc("The tools that the gateway runs itself.")] = ToolsSettings()
    steps: Annotated[
        dict[str, StepSettings], TABLE, Doc("Transformation steps, by names of your choice.")
    ] = {}
    session_limits: Annotated[SessionLimits, TABLE, Doc("Limits of one session of an agent.")] = (
        SessionLimits()
    )
    sign_in: Annotated[SignInSettings, TABLE, Doc("The sign-in of agents by device code.")] = SignInSettings()
    managed_settings: Annotated[
        dict[str, object] | None, TABLE, Doc("Settings that Claude Code gets after its sign-in.")
    ] = None
    records: Annotated[RecordSettings, TABLE, Doc("The records of exchanges.")] = RecordSettings()
    providers: Annotated[dict[str, Provider], TABLE, Doc("The providers, by names of your choice.")] = {}
    routes: Annotated[tuple[Route, ...], TABLES, Doc("The targets of the models that clients ask for.")] = ()
    rules: Annotated[
        tuple[Rule, ...], TABLES, Doc("Targets by what a request is. The first that holds wins over routes.")
    ] = ()
    prompts: Annotated[
        tuple[PromptRule, ...], TABLES, Doc("Changes of system texts, messages and tools, in their order.")
    ] = ()
    roles: Annotated[
        dict[str, tuple[str, ...]],
        ROLES,
        Doc("Names of roles, each with a text in the system text or CLAUDE.md that marks it."),
    ] = msgspec.field(default_factory=lambda: dict(DEFAULT_ROLES))
    default: Annotated[
        tuple[TargetName, ...],
        TEXT_OR_TEXTS,
        Doc("The target of models that no route matches; without it they are refused."),
    ] = ()
    #: The path of the file, for messages; empty: no file.
    path: str = ""
    #: The parts of the file that have no effect or cannot work, in the order of the lines.
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def absolute_path(self) -> str:
        """The path for messages to a person who may be in another folder; empty: no file."""
        return os.path.abspath(self.path) if self.path else ""


class KeyTable(NamedTuple):
    """One table of the file: its heading, its keys, and the struct that has their defaults."""

    heading: str
    keys: dict[str, ConfigKey]
    struct: type[msgspec.Struct] | None = None

    def default(self, key: str) -> object:
        """The value if the key is left out; None if there is none, or none that fits on a line."""
        fields = msgspec.structs.fields(self.struct) if self.struct else ()
        default = next((field.default for field in fields if field.encode_name == key), None)
        return default if isinstance(default, bool | int | float | str) and default != "" else None


@cache
def model_keys() -> dict[str, ConfigKey]:
    """The keys of a model's table: all facts, and its governance."""
    governance = ConfigKey(TABLE, "The governance of the tool calls of these models.")
    return {**read_keys(Facts), "governance": governance}


def list_tables() -> tuple[KeyTable, ...]:
    """All tables, in the order of the documentation."""
    return (
        KeyTable("", read_keys(Config), Config),
        KeyTable("[server]", read_keys(ServerSettings), ServerSettings),
        KeyTable("[state]", read_keys(StateSettings), StateSettings),
        KeyTable("[responses]", read_keys(ResponsesSettings), ResponsesSettings),
        KeyTable("[telemetry]", read_keys(TelemetrySettings), TelemetrySettings),
        KeyTable("[tools]", read_keys(ToolsSettings), ToolsSettings),
        KeyTable("[tools.image]", read_keys(ImageToolSettings), ImageToolSettings),
        KeyTable("[tools.web_search]", read_keys(WebSearchSettings), WebSearchSettings),
        KeyTable("[tools.web_search.mapping]", read_keys(SearchMapping), SearchMapping),
        KeyTable("[tools.web_fetch]", read_keys(WebFetchSettings), WebFetchSettings),
        KeyTable("[tools.mcp.NAME]", read_keys(McpServerSettings), McpServerSettings),
        KeyTable("[steps.NAME]", read_keys(StepSettings), StepSettings),
        KeyTable("[session_limits]", read_keys(SessionLimits), SessionLimits),
        KeyTable("[sign_in]", read_keys(SignInSettings), SignInSettings),
        KeyTable("[records]", read_keys(RecordSettings), RecordSettings),
        KeyTable("[providers.NAME]", read_keys(Provider), Provider),
        KeyTable("[providers.NAME.timeouts]", read_keys(Timeouts), Timeouts),
        KeyTable("[[providers.NAME.payload]]", read_keys(PayloadRule), PayloadRule),
        KeyTable("[providers.NAME.sessions]", read_keys(ClaudeCodeSessions), ClaudeCodeSessions),
        # Defaults of facts depend on the dialect.
        KeyTable('[providers.NAME.models."MODEL"]', model_keys()),
        KeyTable("[[rules]]", read_keys(Rule), Rule),
        KeyTable("[rules.when]", read_keys(RuleConditions), RuleConditions),
        KeyTable("[[prompts]]", read_keys(PromptRule), PromptRule),
        KeyTable("[[routes]]", read_keys(Route), Route),
        KeyTable("[[routes.payload]]", read_keys(PayloadRule), PayloadRule),
        KeyTable("[routes.governance]", governance_keys(), Governance),
    )
