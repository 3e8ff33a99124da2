"""A request and its replies under governance: what is sent, and the steps that the replies take.

Both sides follow from the client's request, the governance and the profile, so that whoever translates a
reply need not have translated the request.
"""

from collections.abc import Callable

import msgspec

from dragoman.fit import fit
from dragoman.governance.guard.retry import DenialRetry
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import Governance
from dragoman.governance.snapshot import Snapshot, SnapshotStage
from dragoman.governance.stages import build_stages
from dragoman.governance.text_contract import apply_text_contract
from dragoman.governance.tool_choice import choose
from dragoman.governance.tool_names import DeclaredTool, find_declared_tools
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.providers.profile import Profile, build_target

#: Told in words, tools are all of one kind.
_IN_WORDS = {"custom_tools": False, "client_tools": False, "deferred_tools": False}


class GovernedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, made ready for its target."""

    governance: Governance
    #: The facts that it was fitted by; its replies must be read by the same.
    profile: Profile
    #: The client's request, with what governance has added to it.
    asked: Request
    fitted: Request
    tools: tuple[DeclaredTool, ...]
    exit_name: str = ""

    @property
    def sent(self) -> Request:
        return self.written(self.fitted)

    def written(self, fitted: Request) -> Request:
        """A fitted request as the target is to get it."""
        return apply_text_contract(fitted) if self.governance.contract else fitted

    @property
    def asks_again(self) -> bool:
        """Whether a reply may lead to another question."""
        return self.governance.on_denied == "model" and bool(self.governance.guard)

    def stages(
        self,
        *,
        ids: IdSource,
        report: Report,
        streams: bool = True,
        rounds: DenialRetry | None = None,
        clock: Callable[[], float] | None = None,
        snapshot: Snapshot | None = None,
    ) -> list[Stage]:
        """The steps of one reply, right behind its reader."""
        return [
            *([SnapshotStage(snapshot.before)] if snapshot else ()),
            *build_stages(
                self.governance,
                self.tools,
                ids=ids,
                report=report,
                exit_name=self.exit_name,
                streams=streams,
                rounds=rounds,
                clock=clock,
            ),
            *([SnapshotStage(snapshot.after)] if snapshot else ()),
        ]


def govern_request(
    request: Request, governance: Governance, profile: Profile, losses: Losses, report: Report
) -> GovernedRequest:
    """The request fitted to its target under this governance.

    Replies of several answers cannot be governed, so they cannot be asked for.
    """
    governance = governance.known(profile.facts.call_family)
    facts = {"candidates": False, **(_IN_WORDS if governance.contract else {})}
    profile = profile.with_facts(**facts)
    target = build_target(profile, request.dialect)
    chosen = choose(
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
    )
