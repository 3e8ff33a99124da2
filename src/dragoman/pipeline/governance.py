"""A request under governance: what is sent to the target, and the stages for its replies.

Both follow from the client's request, the settings and the profile. So a reply can be translated without
the object that translated its request.
"""

from collections.abc import Callable

import msgspec

from dragoman.fit import fit
from dragoman.governance.harvest import RequestText
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import OFF, Governance
from dragoman.governance.stages import build_stages
from dragoman.governance.text_contract import apply_text_contract
from dragoman.governance.tool_choice import apply_tool_choice
from dragoman.governance.tool_names import DeclaredTool, find_declared_tools
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.providers.profile import Profile, build_target_facts

#: The text contract has only one kind of tool.
_IN_WORDS = {"custom_tools": False, "client_tools": False, "deferred_tools": False}


class GovernedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request under governance: what is sent, the profile, and what the reply's stages need."""

    governance: Governance
    #: The facts that it was fitted to; its replies must be read with the same ones.
    profile: Profile
    #: The client's request with the changes of governance, before the fit.
    asked: Request
    fitted: Request
    tools: tuple[DeclaredTool, ...]
    exit_name: str = ""
    #: What the reply may repeat, if text is harvested.
    texts: RequestText | None = None

    @property
    def sent(self) -> Request:
        return self.apply_contract(self.fitted)

    def apply_contract(self, fitted: Request) -> Request:
        """The fitted request as it is sent: with a text contract, tools are described as text."""
        return apply_text_contract(fitted) if self.governance.contract else fitted

    @property
    def asks_again(self) -> bool:
        """Whether a denied call leads to another request."""
        return self.governance.on_denied == "model" and bool(self.governance.guard)

    def stages(
        self,
        *,
        ids: IdSource,
        report: Report,
        streams: bool = True,
        can_retry: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> list[Stage]:
        """Build the governance stages of one reply. They come directly after its reader."""
        return build_stages(
            self.governance,
            self.tools,
            ids=ids,
            report=report,
            exit_name=self.exit_name,
            streams=streams,
            can_retry=can_retry,
            clock=clock,
            asked=self.texts,
        )


def govern_request(
    request: Request, governance: Governance, profile: Profile, losses: Losses, report: Report
) -> GovernedRequest:
    """Fit a request to its target under these settings.

    Governance handles one answer per reply, so the fit removes a request for several.
    """
    governance = governance.with_model_family(profile.facts.call_family)
    facts = {"candidates": False, **(_IN_WORDS if governance.contract else {})}
    profile = profile.with_facts(**facts)
    target = build_target_facts(profile, request.dialect)
    chosen = apply_tool_choice(
        request,
        governance,
        choices=target.choices,
        while_reasoning=target.forced_choice_while_reasoning,
    )
    fitted = fit(chosen.request, target, losses)
    tools = find_declared_tools(fitted)
    if chosen.request is not request and chosen.request.tool_choice is not None:
        report(Intervention(kind="choice", detail=(chosen.request.tool_choice.mode,)))
    if governance.contract and tools:
        report(Intervention(kind="contract", detail=(f"{len(tools)} tools",)))
    return GovernedRequest(
        governance=governance,
        profile=profile,
        asked=chosen.request,
        fitted=fitted,
        tools=tools,
        exit_name=chosen.exit_name,
        texts=RequestText(request) if governance.family != OFF else None,
    )
