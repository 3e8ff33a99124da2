"""`choice` and `exit`: the tool choice of requests whose client left it open, and a tool for plain answers.

Only a request with tools is changed, and only if its client chose nothing or `auto`. A model that must call
a tool cannot just answer, so it gets one more tool with a single text argument. `ExitToolStage` turns a call
of that tool into text.
"""

import msgspec

from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import Governance
from dragoman.hub.blocks import Text, Tool, ToolCall
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.events import (
    DELTAS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    SealAttached,
    TextDelta,
)
from dragoman.hub.request import Request, ToolChoice
from dragoman.wire.partial_json import StringMember

EXIT_NAME = "answer_in_words"
EXIT_ARGUMENT = "answer"

replace = msgspec.structs.replace


class ToolChoiceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The request to send, and the name of the exit tool if it has one."""

    request: Request
    exit_name: str = ""


def apply_tool_choice(
    request: Request,
    governance: Governance,
    *,
    choices: frozenset[str],
    while_reasoning: bool = True,
) -> ToolChoiceResult:
    """Set the tool choice that `governance.choice` asks for, if the request leaves it open.

    `choices`: modes that the target accepts. `while_reasoning`: whether it accepts a forced choice for a
    request with reasoning.
    """
    if not governance.choice or not _is_open(request):
        return ToolChoiceResult(request=request)
    if governance.choice == "auto":
        if request.tool_choice is None and "auto" in choices:
            request = replace(request, tool_choice=ToolChoice(mode="auto"))
        return ToolChoiceResult(request=request)
    if "required" not in choices or (_has_reasoning(request) and not while_reasoning):
        return ToolChoiceResult(request=request)
    request = replace(request, tool_choice=ToolChoice(mode="required"))
    if not governance.exit:
        return ToolChoiceResult(request=request)
    name = _find_free_name(request)
    return ToolChoiceResult(
        request=replace(request, tools=(*request.tools, build_exit_tool(name))), exit_name=name
    )


def build_exit_tool(name: str = EXIT_NAME) -> Tool:
    """The tool through which a model that must call a tool gives a plain answer."""
    return Tool(
        name=name,
        description=(
            "Give the user your answer in words. Use it when no other tool helps any further:"
            " when the work is done, when you have a question, or when words are all that is asked for."
        ),
        schema={
            "type": "object",
            "properties": {EXIT_ARGUMENT: {"type": "string", "description": "The whole answer."}},
            "required": [EXIT_ARGUMENT],
            "additionalProperties": False,
        },
    )


def _is_open(request: Request) -> bool:
    """Whether there are tools to call and the client did not choose."""
    chosen = request.tool_choice
    has_tools = any(tool.kind != "hosted" for tool in request.tools)
    # A client that asks for JSON wants the answer itself in that form, which no tool can promise.
    wants_text = request.output is None or request.output.kind == "text"
    return has_tools and wants_text and (chosen is None or chosen.mode == "auto")


def _has_reasoning(request: Request) -> bool:
    reasoning = request.reasoning
    return reasoning is not None and (
        reasoning.mode in ("on", "adaptive") or reasoning.effort not in (None, "none")
    )


def _find_free_name(request: Request) -> str:
    taken = {tool.name.casefold() for tool in request.tools}
    name = EXIT_NAME
    while name in taken:
        name += "_"
    return name


class ExitToolStage:
    """Turns calls of the exit tool into text blocks, as they arrive."""

    def __init__(self, exit_name: str, report: Report) -> None:
        self._exit_name = exit_name
        self._report = report
        self._answers: dict[int, StringMember] = {}
        self._calls = 0
        self._has_answered = False
        self.unchanged_kinds: frozenset[type] = DELTAS

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is BlockOpened:
            return self._open(event)
        if type(event) is ReplyFinished and self._has_answered:
            cause = reconcile_cause(event.cause, has_calls=self._calls > 0)
            return [event if cause == event.cause else replace(event, cause=cause, raw_cause="")]
        if isinstance(event, ArgumentsDelta | SealAttached | BlockClosed) and event.index in self._answers:
            return self._add(event)
        return [event]

    def _open(self, event: BlockOpened) -> list[ReplyEvent]:
        call = event.block
        if type(call) is not ToolCall:
            return [event]
        if call.name != self._exit_name or call.namespace:
            self._calls += 1
            return [event]
        self._has_answered = True
        answer = self._answers[event.index] = StringMember(EXIT_ARGUMENT)
        self.unchanged_kinds = DELTAS - {ArgumentsDelta, SealAttached}
        return [
            BlockOpened(event.index, Text(text="")),
            *_write_text(event.index, answer.feed(call.arguments)),
        ]

    def _add(self, event: ArgumentsDelta | SealAttached | BlockClosed) -> list[ReplyEvent]:
        answer = self._answers[event.index]
        if type(event) is ArgumentsDelta:
            return _write_text(event.index, answer.feed(event.text))
        if type(event) is SealAttached:
            # A seal belongs to a call, and the client gets none.
            return []
        del self._answers[event.index]
        if not self._answers:
            self.unchanged_kinds = DELTAS
        rest = answer.finish()
        if not answer.is_found:
            # The model answered, but not in the form of the tool.
            rest = answer.raw
        self._report(Intervention(kind="exit", tool=self._exit_name, ok=answer.is_found))
        return [*_write_text(event.index, rest), BlockClosed(event.index)]


def _write_text(index: int, text: str) -> list[ReplyEvent]:
    return [TextDelta(index, text)] if text else []
