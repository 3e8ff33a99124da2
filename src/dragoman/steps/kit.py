"""A test kit for transformation steps: what every step must keep, tried on sample requests and replies.

A package that offers a step calls `find_problems(step)` in a test and expects an empty list. Own samples can
be added. The kit needs no gateway and no network.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from dragoman.dialects.registry import DEFAULT_DIALECT, DIALECTS, dialect_named
from dragoman.fit import fit
from dragoman.hub.blocks import AnyBlock, Media, Reasoning, ReplyBlock, Text, Tool, ToolCall, ToolResult
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
)
from dragoman.hub.fold import Reply, fold, unfold
from dragoman.hub.loss import Losses
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.request import Message, Request, Role
from dragoman.hub.stage import Stage
from dragoman.hub.usage import Usage
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from dragoman.steps.step import TransformStep

#: The lengths into which texts of sample replies are cut: an upstream may send any.
PIECES = (1, 3, 1000)

_TOOL = Tool(name="read", description="Reads a file.", schema={"type": "object", "properties": {}})
_CALL = ToolCall(id="call_1", name="read", arguments="{}")
_RESULT = ToolResult(call_id="call_1", name="read", content=(Text(text="its content"),))
_FAILED = ReplyFailed("truncated", Failure(kind="server", message="the connection broke"))
_PICTURE = Media(kind="image", media_type="image/png", data="AAAA")


def _ask(*messages: Message, tools: tuple[Tool, ...] = ()) -> Request:
    return Request(dialect=DEFAULT_DIALECT, model="m", messages=messages, tools=tools)


def _say(role: Role, *blocks: AnyBlock) -> Message:
    return Message(role=role, blocks=blocks)


#: A conversation, step by step: each request begins with the one before.
CONVERSATION: tuple[Message, ...] = (
    _say("system", Text(text="You are an agent.")),
    _say("user", Text(text="Hello."), _PICTURE),
    _say("assistant", Text(text="I read it."), _CALL),
    _say("tool", _RESULT),
    _say("assistant", Text(text="Done.")),
    _say("user", Text(text="Thanks. And now?")),
)
#: The numbers of messages after which a client sends the conversation.
ENDS = (2, 4, 6)
REQUESTS: tuple[Request, ...] = (
    *(_ask(*CONVERSATION[:end], tools=(_TOOL,)) for end in ENDS),
    _ask(_say("user", Text(text="Hello."))),
)
REPLIES: tuple[tuple[ReplyBlock, ...], ...] = (
    (Text(text="A plain answer with several words.\n\nAnd a paragraph."),),
    (Reasoning(parts=("Let me think.",), raw=True), Text(text="Well.")),
    (Text(text="I read it."), _CALL),
    (_CALL, msgspec.structs.replace(_CALL, id="call_2")),
    (Text(text=""), Text(text="<b>tags</b> & \u00e9\u4e2d\U0001f600")),
)


def find_problems(
    step: TransformStep,
    requests: Sequence[Request] = (),
    replies: Sequence[Sequence[ReplyBlock]] = (),
    *,
    keeps_prefix: bool = True,
) -> list[str]:
    """What is wrong with a step, in words. `requests` and `replies` are added to the samples.

    `keeps_prefix`: a longer conversation must begin with the same messages, or prompt caches miss.
    """
    problems: list[str] = []
    for dialect in DIALECTS:
        target = build_target_facts(Profile(dialect=dialect), dialect)
        for number, request in enumerate((*REQUESTS, *requests)):
            problems += (f"request {number}: {each}" for each in _check_request(step, request, target))
        if keeps_prefix:
            problems += _check_prefix(step, target)
        for number, blocks in enumerate((*REPLIES, *replies)):
            problems += (f"reply {number}: {each}" for each in _check_reply(step, tuple(blocks), target))
    return list(dict.fromkeys(problems))


def _check_request(step: TransformStep, request: Request, target: TargetFacts) -> Iterator[str]:
    before = msgspec.json.encode(request)
    try:
        changed: object = step.change_request(request, target)
    except Exception as error:
        yield f"change_request raises {type(error).__name__}"
        return
    if msgspec.json.encode(request) != before:
        yield "change_request changes the request itself; return a new one (msgspec.structs.replace)"
    if not isinstance(changed, Request):
        yield f"change_request returns {type(changed).__name__}, not a Request"
        return
    if step.change_request(request, target) != changed:
        yield "change_request returns different requests for the same request"
    yield from _check_history(changed)
    try:
        losses = Losses()
        dialect_named(target.dialect).write_request(fit(changed, target, losses), target, losses)
    except DragomanError as error:
        yield f"the changed request cannot be written for {target.dialect}: {error.message}"


def _check_history(request: Request) -> Iterator[str]:
    """Each call must have exactly one result, before the next message of the model."""
    waiting: list[str] = []
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, ToolResult) and block.call_id not in waiting:
                yield f"a result without a call: {block.call_id}"
            elif isinstance(block, ToolResult):
                waiting.remove(block.call_id)
            elif waiting and message.role == "assistant" and not isinstance(block, ToolCall):
                yield f"a message of the model comes before the result of {waiting[0]}"
        waiting += (block.id for block in message.blocks if isinstance(block, ToolCall))
    if waiting:
        yield f"a call without a result: {waiting[0]}"


def _check_prefix(step: TransformStep, target: TargetFacts) -> Iterator[str]:
    try:
        turns = [step.change_request(request, target).messages for request in REQUESTS[: len(ENDS)]]
    except Exception:
        return  # `_check_request` reports it.
    for shorter, longer in pairwise(turns):
        if longer[: len(shorter)] != shorter:
            yield "a longer conversation begins with other messages, so prompt caches are of no use"


def _check_reply(step: TransformStep, blocks: tuple[ReplyBlock, ...], target: TargetFacts) -> Iterator[str]:
    found: list[Reply] = []
    for size in PIECES:
        events = list(_cut(blocks, size))
        try:
            stage = step.build_stage(REQUESTS[0], target)
            if stage is None:
                return
            changed = [each for event in events for each in _feed(stage, event)]
            checker = GrammarChecker()
            for each in changed:
                checker.check(each)
        except DragomanError as error:
            yield f"the stage breaks the grammar of replies: {error.message}"
            return
        except Exception as error:
            yield f"the stage raises {type(error).__name__}: {error}"
            return
        if not checker.is_ended:
            yield "the stage loses the ending of the reply"
            return
        found.append(fold(changed))
        yield from _check_failure(step, events, target)
    if any(_describe(each) != _describe(found[0]) for each in found):
        yield "the changed reply depends on how the upstream cuts its text"


def _feed(stage: Stage, event: ReplyEvent) -> list[ReplyEvent]:
    """Feed an event as the pipeline does, and check what the stage declares about it."""
    is_unchanged = type(event) in stage.unchanged_kinds
    events = stage.feed(event)
    if is_unchanged and events != [event]:
        raise ValueError(f"{type(event).__name__} is in unchanged_kinds, and the stage changes it")
    return events


def _check_failure(step: TransformStep, events: Sequence[ReplyEvent], target: TargetFacts) -> Iterator[str]:
    """A reply may fail after every event. The stage must pass the failure on."""
    for end in range(1, len(events)):
        stage = step.build_stage(REQUESTS[0], target)
        if stage is None:
            return
        sent = [each for event in (*events[:end], _FAILED) for each in stage.feed(event)]
        if not sent or not isinstance(sent[-1], ReplyFailed):
            yield "the stage loses the failure of a reply"
            return


def _describe(reply: Reply) -> tuple[str, ...]:
    """The content of a reply, without what depends on the pieces."""
    return tuple(msgspec.json.encode(block).decode() for block in reply.blocks)


def _cut(blocks: tuple[ReplyBlock, ...], size: int) -> Iterator[ReplyEvent]:
    """The events of a reply whose texts come in pieces of this length."""
    has_calls = any(isinstance(block, ToolCall) for block in blocks)
    ending = ReplyFinished(cause="tool_calls" if has_calls else "end")
    started = ReplyStarted(id="reply_1", model="m")
    for event in unfold(Reply(started=started, blocks=blocks, usage=Usage(input=9, output=9), ending=ending)):
        if isinstance(event, (TextDelta, ReasoningDelta, ArgumentsDelta)) and event.text:
            for start in range(0, len(event.text), size):
                yield msgspec.structs.replace(event, text=event.text[start : start + size])
        else:
            yield event
