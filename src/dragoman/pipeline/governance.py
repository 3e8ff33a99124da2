"""A request under governance: what is sent to the target, and the stages for its replies.

Both follow from the client's request, the settings and the profile. So a reply can be translated without
the object that translated its request.
"""

from collections.abc import Callable

import msgspec

from dragoman.fit.front import FittedFront, fit_with_front
from dragoman.governance.harvest import RequestText
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import OFF, Governance
from dragoman.governance.stages import build_stages
from dragoman.governance.text_contract import apply_text_contract
from dragoman.governance.tool_choice import ToolChoiceResult, apply_tool_choice
from dragoman.governance.tool_names import DeclaredTool, find_declared_tools
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.pipeline.outline import build_outline
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts

_replace = msgspec.structs.replace

#: Governance handles one answer per reply, so the fit removes a request for several.
_WITHOUT = ("candidates",)
#: The text contract has only one kind of tool.
_WITHOUT_IN_WORDS = (*_WITHOUT, "custom_tools", "client_tools", "deferred_tools")


class GovernedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of governance for requests to one target, and the facts that these are fitted to.

    `choose` before the fit and `apply_contract` after it are all that governance changes of a request.
    """

    governance: Governance
    facts: TargetFacts
    #: Requests and replies pass unchanged.
    is_idle: bool = False

    @property
    def request_settings(self) -> tuple[object, ...]:
        """The settings that change requests."""
        settings = self.governance
        return (settings.choice, settings.exit, settings.contract)

    def choose(self, request: Request) -> ToolChoiceResult:
        """The request with the tool choice of the settings. It depends on settings and tools alone."""
        facts = self.facts
        return apply_tool_choice(
            request,
            self.governance,
            choices=facts.choices,
            while_reasoning=facts.forced_choice_while_reasoning,
        )

    def apply_contract(self, fitted: Request) -> Request:
        """The fitted request as it is sent: with a text contract, tools are described as text."""
        return apply_text_contract(fitted) if self.governance.contract else fitted


class GovernedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request under governance: what the next rounds and the stages of its reply need."""

    target: GovernedTarget
    #: The outline of the client's request with the changes of governance, before the fit.
    asked: Request
    tools: tuple[DeclaredTool, ...]
    exit_name: str = ""
    #: What the reply may repeat, if text is harvested.
    texts: RequestText | None = None
    #: What governance changed of the request.
    interventions: tuple[Intervention, ...] = ()
    #: Returns the whole fitted request.
    find_fitted: Callable[[], Request]

    @property
    def sent(self) -> Request:
        return self.target.apply_contract(self.find_fitted())

    @property
    def asks_again(self) -> bool:
        """Whether a denied call leads to another request."""
        governance = self.target.governance
        return governance.on_denied == "model" and bool(governance.guard)

    def compare(self, other: "GovernedRequest") -> bool:
        """Whether two translations of a request lead to the same reply and the same next rounds."""
        texts, others = (each.texts for each in (self, other))
        return (
            # Replies do not depend on the notes for a writer of requests.
            _replace(self.asked, form="") == _replace(other.asked, form="")
            and self.tools == other.tools
            and self.exit_name == other.exit_name
            and self.interventions == other.interventions
            and (texts is None) == (others is None)
            and (texts is None or others is None or texts.is_equal(others))
            and (not self.asks_again or self.find_fitted() == other.find_fitted())
        )

    def stages(
        self,
        *,
        ids: IdSource,
        report: Report,
        streams: bool = True,
        can_retry: bool = False,
        clock: Callable[[], float] | None = None,
        is_hidden: Callable[[str], bool] | None = None,
    ) -> list[Stage]:
        """Build the governance stages of one reply. They come directly after its reader."""
        return build_stages(
            self.target.governance,
            self.tools,
            ids=ids,
            report=report,
            exit_name=self.exit_name,
            streams=streams,
            can_retry=can_retry,
            clock=clock,
            asked=self.texts,
            is_hidden=is_hidden,
        )


_UNGOVERNED = Governance()


def find_governed_target(
    governance: Governance | None, profile: Profile, client_dialect: str
) -> GovernedTarget:
    """The target of requests under these settings. None: they cannot change the request or its reply."""
    if governance is None:
        facts = build_target_facts(profile, client_dialect)
        return GovernedTarget(governance=_UNGOVERNED, facts=facts, is_idle=True)
    governance = governance.with_model_family(profile.facts.call_family)
    profile = profile.without(*(_WITHOUT_IN_WORDS if governance.contract else _WITHOUT))
    facts = build_target_facts(profile, client_dialect)
    return GovernedTarget(governance=governance, facts=facts)


def govern_request(
    request: Request, target: GovernedTarget, losses: Losses, front: FittedFront | None = None
) -> GovernedRequest:
    """Apply the governance of `target` to a request, and fit it. Returns what governing the reply needs.

    `front`: that of the request, if it is known.
    """
    chosen = target.choose(request)
    fitted = fit_with_front(chosen.request, front, target.facts, losses)
    tools = find_declared_tools(fitted)
    return GovernedRequest(
        target=target,
        asked=build_outline(chosen.request),
        tools=tools,
        exit_name=chosen.exit_name,
        texts=RequestText(request.messages) if target.governance.family != OFF else None,
        interventions=list_interventions(target, request, chosen.request, tools),
        find_fitted=lambda: fitted,
    )


def list_interventions(
    target: GovernedTarget, request: Request, chosen: Request, tools: tuple[DeclaredTool, ...]
) -> tuple[Intervention, ...]:
    """What governance changed of a request: `chosen` is what `GovernedTarget.choose` made of it."""
    made: list[Intervention] = []
    if chosen is not request and chosen.tool_choice is not None:
        made.append(Intervention(kind="choice", detail=(chosen.tool_choice.mode,)))
    if target.governance.contract and tools:
        made.append(Intervention(kind="contract", detail=(f"{len(tools)} tools",)))
    return tuple(made)
