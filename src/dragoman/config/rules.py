"""`[[rules]]`: which target answers a request, by what the request is. See `model`.

A rule has conditions (`when`) and one result: targets, a route, an answer of the gateway's own, the model
that a tag in the prompt names, or what a Python function returns. `PRESETS` are ready conditions.
"""

from typing import Annotated, Literal

import msgspec

from dragoman.agents import REQUEST_CLASSES, RequestClass
from dragoman.config.provider import TargetName
from dragoman.config.value_kinds import TABLE, TEXT_OR_TEXTS, Kind, one_name_of, some_of
from dragoman.hub.request import EFFORTS, Effort
from dragoman.providers.facts import Doc

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

#: Tokens from which claude-code-router sends a request to its model for long contexts.
LONG_CONTEXT = 60_000


class RuleConditions(msgspec.Struct, frozen=True, kw_only=True):
    """`[rules.when]`: all conditions that are set must hold. Of a list, one value must match."""

    agent: Annotated[
        tuple[str, ...],
        TEXT_OR_TEXTS,
        Doc("The agent: `claude-code`, `codex`, `gemini-cli`, `opencode`, or the product in `user-agent`."),
    ] = ()
    agent_version: Annotated[
        str, Doc("The agent's version, as a pattern or compared: `2.1.*`, `>=2.1.300`, `<0.160`.")
    ] = ""
    sub_agent: Annotated[bool | None, Doc("The request comes from a sub-agent, or from the main agent.")] = (
        None
    )
    role: Annotated[
        tuple[str, ...], TEXT_OR_TEXTS, Doc("A role of `[roles]`, by its marker in the system text.")
    ] = ()
    classes: Annotated[
        tuple[RequestClass, ...],
        some_of(*REQUEST_CLASSES),
        Doc("Why the agent sends the request: the user's `turn`, or a chore of the agent's own."),
    ] = msgspec.field(name="class", default=())
    model: Annotated[
        tuple[str, ...], TEXT_OR_TEXTS, Doc("The model name of the client; `*` matches any part.")
    ] = ()
    key: Annotated[tuple[str, ...], TEXT_OR_TEXTS, Doc("The name of the client key.")] = ()
    project: Annotated[
        tuple[str, ...],
        TEXT_OR_TEXTS,
        Doc("The folder that the agent works in: its last part, or a path such as `/src/*`."),
    ] = ()
    path: Annotated[
        tuple[str, ...],
        TEXT_OR_TEXTS,
        Doc("An entry such as `/claude`, below which the gateway serves its endpoints too."),
    ] = ()
    tokens_over: Annotated[int, Doc("The prompt has more tokens than this, by estimate.")] = 0
    tokens_under: Annotated[int, Doc("The prompt has fewer tokens than this, by estimate.")] = 0
    images: Annotated[
        Literal["new", "any", "none"] | None,
        Doc("Images since the model's last answer, anywhere in the conversation, or nowhere."),
    ] = None
    web_search: Annotated[bool | None, Doc("The request declares the vendor's web search.")] = None
    thinking: Annotated[bool | None, Doc("The request asks for reasoning.")] = None
    effort: Annotated[
        tuple[Effort, ...], some_of(*EFFORTS), Doc("The effort of reasoning that the request asks for.")
    ] = ()
    tools: Annotated[tuple[str, ...], TEXT_OR_TEXTS, Doc("The name of a declared tool.")] = ()
    called: Annotated[
        tuple[str, ...], TEXT_OR_TEXTS, Doc("The name of a tool that the model's last message called.")
    ] = ()
    hours: Annotated[
        str, Doc("The time of day of the gateway, such as `22:00-06:00`; the end is not included.")
    ] = ""
    days: Annotated[tuple[Day, ...], some_of(*DAYS), Doc("The days of the week.")] = ()
    headers: Annotated[
        dict[str, str], TABLE, Doc("Request headers and patterns of their values; keys are not seen.")
    ] = {}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`[[rules]]`: conditions and one result. The first rule whose conditions hold decides."""

    name: Annotated[str, Doc("The name in logs, headers and `dragoman explain`; default: the preset's.")] = ""
    preset: Annotated[
        str,
        one_name_of(lambda: tuple(PRESETS)),
        Doc("Ready conditions. Conditions in `when` are added to them or replace them."),
    ] = ""
    when: Annotated[RuleConditions, TABLE, Doc("The conditions; without any, the rule always holds.")] = (
        RuleConditions()
    )
    targets: Annotated[
        tuple[TargetName, ...],
        TEXT_OR_TEXTS,
        Doc("`provider/model`; of several, the next is tried if one fails."),
    ] = msgspec.field(name="target", default=())
    route: Annotated[str, Doc("The `match` of a route, whose targets and settings are used.")] = ""
    answer: Annotated[str, Doc("The gateway answers with this text itself, and asks no model.")] = ""
    function: Annotated[
        str, Doc("`FILE.py:NAME` or `module:NAME`: a Python function that returns the target, or None.")
    ] = ""
    timeout: Annotated[float, Doc("Seconds that the function may take; then the next rule decides.")] = 0.5

    @property
    def uses_tag(self) -> bool:
        """Whether the target is the model that a tag at the beginning of a system text names."""
        return not (self.targets or self.route or self.answer or self.function)


#: Named after the routes of claude-code-router and the classes of RouteCodex.
PRESETS: dict[str, RuleConditions] = {
    # claude-code-router.
    "default": RuleConditions(),
    "background": RuleConditions(classes=("background", "title")),
    "think": RuleConditions(thinking=True),
    "longContext": RuleConditions(tokens_over=LONG_CONTEXT),
    "webSearch": RuleConditions(web_search=True),
    "image": RuleConditions(images="new"),
    "tag": RuleConditions(),
    # RouteCodex.
    "multimodal": RuleConditions(images="any"),
    "vision": RuleConditions(images="new"),
    "longcontext": RuleConditions(tokens_over=180_000),
    "websearch": RuleConditions(web_search=True),
    "thinking": RuleConditions(thinking=True),
    "coding": RuleConditions(called=("*[Ee]dit*", "*[Ww]rite*", "apply_patch", "replace")),
    "search": RuleConditions(
        called=("Read", "Grep", "Glob", "LS", "read*", "grep*", "glob*", "list*", "search*")
    ),
    "tools": RuleConditions(tools=("*",)),
    # Further ones.
    "probes": RuleConditions(classes=("quota", "warmup")),
    "title": RuleConditions(classes=("title",)),
    "compaction": RuleConditions(classes=("compaction",)),
    "subAgent": RuleConditions(sub_agent=True),
    "lead": RuleConditions(role=("lead",)),
}

#: The markers of a role in the system text, if the file does not define the role. HydraTeams uses this one.
DEFAULT_ROLES: dict[str, tuple[str, ...]] = {"lead": ("hydra:lead",)}


ROLES = Kind("a table of texts", lambda value: isinstance(value, dict))
