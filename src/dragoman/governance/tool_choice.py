"""What to say about calling tools where the client left it open, and a way out for plain answers.

Only a request with tools whose client said nothing, or `auto`, is changed. A model that must call a tool can
never just answer, so it gets one tool more, whose single text is the answer; on the way back that is text.
"""

import msgspec

from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import Governance
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.content import Text, Tool, ToolCall
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


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The request to send, and the name of the tool that means a plain answer, if there is one."""

    request: Request
    exit_name: str = ""


def choose(
    request: Request,
    governance: Governance,
    *,
    choices: frozenset[str],
    while_reasoning: bool = True,
) -> Chosen:
    """`choices`: modes that the target takes. `while_reasoning`: a model that thinks can be made to call."""
    if not governance.choice or not _is_open(request):
        return Chosen(request=request)
    if governance.choice == "auto":
        if request.tool_choice is None and "auto" in choices:
            request = replace(request, tool_choice=ToolChoice(mode="auto"))
        return Chosen(request=request)
    if "required" not in choices or (_reasons(request) and not while_reasoning):
        return Chosen(request=request)
    request = replace(request, tool_choice=ToolChoice(mode="required"))
    if not governance.exit:
        return Chosen(request=request)
    name = _free_name(request)
    return Chosen(request=replace(request, tools=(*request.tools, exit_tool(name))), exit_name=name)


def exit_tool(name: str = EXIT_NAME) -> Tool:
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
    """Whether there are tools to call and the client has not said how."""
    chosen = request.tool_choice
    has_tools = any(tool.kind != "hosted" for tool in request.tools)
    # Whoever asks for JSON wants the answer itself to be of that form, which no tool can promise.
    wants_text = request.output is None or request.output.kind == "text"
    return has_tools and wants_text and (chosen is None or chosen.mode == "auto")


def _reasons(request: Request) -> bool:
    wish = request.reasoning
    return wish is not None and (wish.mode in ("on", "adaptive") or wish.effort not in (None, "none"))


def _free_name(request: Request) -> str:
    taken = {tool.name.casefold() for tool in request.tools}
    name = EXIT_NAME
    while name in taken:
        name += "_"
    return name


class ExitToolStage:
    """Calls of the exit are text, as they arrive."""

    def __init__(self, exit_name: str, report: Report) -> None:
        self._exit_name = exit_name
        self._report = report
        self._answers: dict[int, StringMember] = {}
        self._calls = 0
        self._has_answered = False
        self.passes: frozenset[type] = DELTAS

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is BlockOpened:
            return self._opened(event)
        if type(event) is ReplyFinished and self._has_answered:
            cause = reconcile_cause(event.cause, has_calls=self._calls > 0)
            return [event if cause == event.cause else replace(event, cause=cause, raw_cause="")]
        if isinstance(event, ArgumentsDelta | SealAttached | BlockClosed) and event.index in self._answers:
            return self._more(event)
        return [event]

    def _opened(self, event: BlockOpened) -> list[ReplyEvent]:
        call = event.block
        if type(call) is not ToolCall:
            return [event]
        if call.name != self._exit_name or call.namespace:
            self._calls += 1
            return [event]
        self._has_answered = True
        answer = self._answers[event.index] = StringMember(EXIT_ARGUMENT)
        self.passes = DELTAS - {ArgumentsDelta, SealAttached}
        return [BlockOpened(event.index, Text(text="")), *_text(event.index, answer.feed(call.arguments))]

    def _more(self, event: ArgumentsDelta | SealAttached | BlockClosed) -> list[ReplyEvent]:
        answer = self._answers[event.index]
        if type(event) is ArgumentsDelta:
            return _text(event.index, answer.feed(event.text))
        if type(event) is SealAttached:
            # It vouches for a call, and there is none any more.
            return []
        del self._answers[event.index]
        if not self._answers:
            self.passes = DELTAS
        rest = answer.finish()
        if not answer.is_found:
            # The model spoke, if not in the form it was asked for.
            rest = answer.raw
        self._report(Intervention(kind="exit", tool=self._exit_name, ok=answer.is_found))
        return [*_text(event.index, rest), BlockClosed(event.index)]


def _text(index: int, text: str) -> list[ReplyEvent]:
    return [TextDelta(index, text)] if text else []
