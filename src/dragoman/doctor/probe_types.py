"""The types of a probe: the question, the judgement of the answer, and the remedies.

A probe function returns `report_success`, `report_mistake` or `report_absence`. A server's error raises
`QuestionRefused`, which `examine` turns into `report_refusal`.
"""

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from dragoman.doctor.conversation import ModelConversation
from dragoman.doctor.findings import Facts
from dragoman.doctor.replies import ProbeReply
from dragoman.hub.errors import Failure

#: In advice: replaced by the heading of the model's governance table.
GOVERNANCE = "[governance]"

#: `refused`: an error of the server. `wrong`: an answer, but not the requested one. `absent`: the server does
#: not have the feature.
ProbeResult = Literal["works", "refused", "wrong", "absent"]


class ProbeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run. `help` lists what dragoman did to make it work, `facts` what was learned."""

    result: ProbeResult
    detail: str = ""
    failure: Failure | None = None
    help: tuple[str, ...] = ()
    facts: Facts = {}
    advice: str = ""


class Remedy(msgspec.Struct, frozen=True):
    """Facts that make dragoman change its requests, and the description of that change.

    `is_last_resort`: the feature is lost. The remedy helps if the server no longer refuses the request.
    """

    facts: Facts
    description: str
    is_last_resort: bool = False


ProbeFunction = Callable[[ModelConversation], Awaitable[ProbeOutcome]]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of probes. `needs` names probes that must not have failed before."""

    name: str
    asks: str
    run: ProbeFunction
    needs: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    advice: str = ""


def report_success(reply: ProbeReply, detail: str = "", *help: str) -> ProbeOutcome:
    """The outcome for an answer that meets the request.

    `help`: what dragoman did so that it works. Values that it did not send are added.
    """
    losses = tuple(f"not sent: {loss}" for loss in reply.losses)
    return ProbeOutcome(result="works", detail=detail, help=(*help, *losses))


def report_refusal(reply: ProbeReply) -> ProbeOutcome:
    """The outcome of a probe that the server answered with an error."""
    message = reply.failure.message if reply.failure else ""
    return ProbeOutcome(result="refused", detail=message, failure=reply.failure)


def report_mistake(detail: str, *, advice: str = "", facts: Facts | None = None) -> ProbeOutcome:
    """The outcome for an answer that does not meet the request."""
    return ProbeOutcome(result="wrong", detail=detail, advice=advice, facts=facts or {})


def report_absence(detail: str, *, advice: str = "") -> ProbeOutcome:
    """The outcome for a feature that the server does not have."""
    return ProbeOutcome(result="absent", detail=detail, advice=advice)


def quote(text: str, limit: int = 60) -> str:
    """The start of a model's text, in one line and in quotes."""
    line = " ".join(text.split())
    return f'"{line[:limit]}…"' if len(line) > limit else f'"{line}"'
