"""Requests to servers of the client's own dialect whose conversation is not read.

Most facts about a model are about settings. If no pass of `fit` needs more (`fit.settings`), the settings are
read and fitted alone. What changes is edited in the client's bytes, and the rest goes on as it came.

Governance of the reply needs the tools too, and the last answer of the conversation. Whatever else it needs
of the conversation is read later: if text of the reply looks like a call, and for a next round.

A conversation that is not read is not checked either, as in the lane `forward`: its server judges it.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import msgspec

from dragoman.dialects.forwarding import Members
from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.fit.generation import has_limit_field
from dragoman.fit.settings import fit_settings
from dragoman.governance.harvest import RequestText
from dragoman.governance.interventions import Report
from dragoman.governance.settings import OFF, Governance
from dragoman.governance.tool_names import find_declared_tools
from dragoman.hub.blocks import Text
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.pipeline.bodies import read_object
from dragoman.pipeline.body_parts import BodyParts
from dragoman.pipeline.governance import (
    GovernedRequest,
    GovernedTarget,
    find_governed_target,
    list_interventions,
)
from dragoman.pipeline.history import list_answers
from dragoman.pipeline.outline import build_outline
from dragoman.pipeline.reading import RequestSource
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.pipeline.reuse import fit_whole, list_losses
from dragoman.pipeline.split_body import SplitBody, split_body
from dragoman.pipeline.target_provider import TargetProvider
from dragoman.pipeline.target_request import TargetRequest
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from dragoman.wire.fields import ArrayTail, decode, encode

if TYPE_CHECKING:
    from dragoman.pipeline.plan import RequestPlan

#: So many items at the end of a conversation usually contain its last answer.
LAST_ITEMS = 4

_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")


class UnreadBody:
    """A request's body whose conversation is not read."""

    def __init__(self, plan: "RequestPlan", split: SplitBody, conversation: bytes) -> None:
        metadata = plan.metadata
        self.source = RequestSource(metadata.dialect, metadata.model, metadata.stream)
        self._dialect = plan.dialect
        self.body = plan.body
        self._split = split
        self._conversation = conversation

    def may_contain(self, fact: str) -> bool:
        """Whether the conversation may contain anything that a fact is about."""
        mark = self._dialect.forwarding.content_marks.get(fact)
        return mark is None or self._has_mark(mark)

    @property
    def may_be_special(self) -> bool:
        """Whether the conversation may change the request whatever the facts are."""
        mark = self._dialect.forwarding.special_mark
        return bool(mark) and self._has_mark(mark)

    def _has_mark(self, mark: bytes) -> bool:
        return self._conversation.find(mark) >= 0 or self._has_escaped_letters

    @cached_property
    def _has_escaped_letters(self) -> bool:
        """Whether a letter is written as an escape: then no search for bytes finds all that is there."""
        is_likely = self._conversation.find(b"\\u00") >= 0
        return is_likely and _ESCAPED_LETTER.search(self._conversation) is not None

    def read_end(self, count: int, *, with_tools: bool) -> Request:
        """Read the settings, and the last items as if they were all. Without system prompts."""
        history, split = self._dialect.history, self._split
        left_out = history.system if with_tools else history.system | history.tools
        body: Json = {
            name: decode(bytes(raw), depth=0) for name, raw in split.members.items() if name not in left_out
        }
        last = [decode(item, depth=0) for item in split.items[-count:]]
        body[history.conversation] = ArrayTail(last, len(split.items) - len(last))
        source = self.source
        return self._dialect.read_request(body, Losses(), model=source.model, stream=source.stream)

    def list_texts(self, messages: Sequence[Message]) -> RequestText:
        """The texts that a reply may repeat. `messages`: those of the last `LAST_ITEMS` items.

        Only the last answer, and what stands behind it, is read now.
        """
        count = LAST_ITEMS
        while True:
            answers = list_answers(messages)
            if answers:
                last = messages[answers[-1] :]
                return RequestText(last, partial(_read_earlier, self.source, self.body, len(last)))
            if count >= len(self._split.items):
                return RequestText(messages)
            count *= 2
            messages = self.read_end(count, with_tools=False).messages


def _read_earlier(source: RequestSource, body: bytes, count: int) -> Sequence[Message]:
    """All messages but the last ones. A body that cannot be read counts as one text that may be repeated."""
    dialect = dialect_named(source.dialect)
    try:
        request = dialect.read_request(read_object(body), Losses(), model=source.model, stream=source.stream)
    except (DragomanError, RecursionError):
        text = Text(text=body.decode(errors="replace"))
        return (Message(role="user", blocks=(text,)),)
    return request.messages[: len(request.messages) - count]


class FrontReading(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The settings and perhaps the tools, before and after the fit, and the messages that were read."""

    front: Request
    fitted: Request
    last: tuple[Message, ...]
    #: The members of the body with the fitted settings; None: they stay as they are.
    edited: Members | None
    losses: Losses


def _open_body(plan: "RequestPlan", members: Members) -> UnreadBody | None:
    """The body; None if it has no conversation that is an array with items."""
    history = plan.dialect.history
    split = split_body(members, history)
    if split is None or not split.items:
        return None
    unread = UnreadBody(plan, split, bytes(members[history.conversation]))
    return None if unread.may_be_special else unread


def build_unread_request(
    plan: "RequestPlan",
    parts: BodyParts,
    provider: TargetProvider,
    model: str,
    governance: Governance | None,
    *,
    report: Report,
    timer: Callable[[], float] | None,
    strict: bool,
) -> TargetRequest | None:
    """Build the request without reading its conversation; None if it must be read as a whole.

    `parts`: those of the body. `governance`: None if it cannot change the request or its reply.
    """
    # A client that asks a server of its own dialect for a model by its name knows the model; only what the
    # configuration states holds for it. Behind an alias the client cannot know the model.
    knows_model = model == plan.model
    has_facts = provider.has_stated_facts(model) if knows_model else bool(provider.merge_facts(model))
    if governance is None and not has_facts:
        return TargetRequest(plan, provider, model, *plan.patch(model))
    profile = provider.build_profile(model, only_stated=governance is None and knows_model)
    target = find_governed_target(governance, profile, plan.metadata.dialect)
    facts = target.facts
    members = None if plan.is_unreadable or facts.instructions else parts.split()
    unread = None if members is None else _open_body(plan, members)
    if members is None or unread is None:
        return None
    try:
        fitting = _fit_front(unread, target, members)
        governed = _govern(unread, target, fitting) if fitting and governance else None
    except (DragomanError, RecursionError):
        # Reading the whole request finds the same fault, and names the first one.
        return None
    if fitting is None:
        return None
    losses = fitting.losses
    body, lane = plan.patch(facts.model or plan.model, facts, fitting.edited)
    patched = remove_fields(body, facts.refused_fields, losses)
    lost = list_losses(losses, strict=strict)
    for intervention in governed.interventions if governed else ():
        report(intervention)
    lane = lane if patched is body else "patch"
    return TargetRequest(
        plan,
        provider,
        model,
        patched,
        "translate" if governed else lane,
        facts=facts,
        losses=lost,
        governed=governed,
        report=report,
        timer=timer,
        front=fitting.front if governed else None,
    )


def _fit_front(unread: UnreadBody, target: GovernedTarget, members: Members) -> FrontReading | None:
    """Fit the settings; None if the whole request is needed."""
    facts = target.facts
    is_governed = not target.is_idle
    end = unread.read_end(LAST_ITEMS if is_governed else 1, with_tools=is_governed)
    front = msgspec.structs.replace(end, messages=())
    if target.choose(front).request is not front:
        return None
    losses = Losses()
    fitted = fit_settings(front, facts, losses, unread.may_contain)
    if fitted is None:
        return None
    if fitted == front and has_limit_field(front, facts):
        return FrontReading(front=front, fitted=front, last=end.messages, edited=None, losses=Losses())
    edited = _edit_members(members, front, fitted, facts, losses)
    if edited is None:
        return None
    return FrontReading(front=front, fitted=fitted, last=end.messages, edited=edited, losses=losses)


def _edit_members(
    members: Members, front: Request, fitted: Request, facts: TargetFacts, losses: Losses
) -> Members | None:
    """The members of the body with the fitted settings; None if it spells a setting in another way."""
    dialect = dialect_named(facts.dialect)
    own = build_target_facts(Profile(dialect=facts.dialect), facts.dialect)
    before = dialect.write_request(front, own, Losses())
    after = dialect.write_request(fitted, facts, losses)
    history = dialect.history
    kept = {"model", history.conversation, *history.system, *history.tools}
    edited = dict(members)
    for name in dict.fromkeys((*before, *after)):
        if name in kept or before.get(name) == after.get(name):
            continue
        if name in before and name not in members:
            return None
        if name in after:
            edited[name] = msgspec.Raw(encode(after[name]))
        else:
            del edited[name]
    return edited


def _govern(unread: UnreadBody, target: GovernedTarget, fitting: FrontReading) -> GovernedRequest:
    """What governing the reply needs of the request."""
    front, tools = fitting.front, find_declared_tools(fitting.fitted)
    return GovernedRequest(
        target=target,
        asked=build_outline(front),
        tools=tools,
        texts=unread.list_texts(fitting.last) if target.governance.family != OFF else None,
        interventions=list_interventions(target, front, front, tools),
        find_fitted=partial(fit_whole, unread.source, unread.body, target),
    )
