"""`TargetTools`: the gateway's own tools for one request to one target."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from dragoman.config.tools import ToolsSettings
from dragoman.fit.names import build_name_map
from dragoman.gateway_tools.memory import SHOWN_MARK, ToolMemory, name_conversation
from dragoman.gateway_tools.stages import MAX_QUOTE, CitationStage, GatewayCallStage
from dragoman.gateway_tools.tool import (
    AskModel,
    GatewayTool,
    ToolFailed,
    ToolOffer,
    ToolOutcome,
    ToolRun,
)
from dragoman.governance.repair import repair
from dragoman.governance.repair.candidates import decode_object
from dragoman.governance.repair.steps import RepairStep
from dragoman.hub.blocks import Citation, HostedCall, HostedResult, Media, Text, Tool, ToolCall, ToolResult
from dragoman.hub.ids import digest
from dragoman.hub.request import Message, Request, ToolChoice, list_declared_tools
from dragoman.hub.rounds import Round, WithheldCall
from dragoman.hub.stage import Stage
from dragoman.providers.profile import TargetFacts

LOGGER = logging.getLogger("dragoman")
replace = msgspec.structs.replace

#: Runs of one round that go on at the same time.
MAX_PARALLEL = 8
#: Characters of a picture in base64. Vendors refuse a request with a larger one.
MAX_PICTURE = 5 * 1024 * 1024
SOURCES = "Sources. To cite one, write its number in brackets after the statement, such as [1]."
#: Steps of a repair that add what is missing: the call may have been cut off.
_COMPLETED = frozenset({RepairStep.BRACKETS.value, RepairStep.UNFINISHED_STRING.value})
LAST_CALL = "[The gateway runs no further calls in this reply: answer with what is known.]"


class OfferedFunction(msgspec.Struct, frozen=True):
    """Where a function of the request comes from.

    That is its tool, the tool's own name for it, the context of the tool's offer, and the function's schema.
    """

    tool: GatewayTool
    name: str
    context: object
    schema: dict[str, object] | None = None


class RunRecord(msgspec.Struct, frozen=True):
    """One run, for the record of the exchange."""

    function: str
    seconds: float
    is_error: bool


class TargetTools:
    """The tools of one request. See the package for the order of calls.

    `owner`: the caller's name. `has_budget`: whether the caller's budgets have something left now.
    """

    def __init__(
        self,
        tools: Sequence[GatewayTool],
        settings: ToolsSettings,
        memory: ToolMemory,
        *,
        owner: str,
        ask_model: AskModel,
        has_budget: Callable[[], bool],
    ) -> None:
        # Tools that return pictures come before those that ask whether there are any.
        self._tools = sorted(tools, key=lambda tool: not tool.returns_pictures)
        self._settings = settings
        self._memory = memory
        self._owner = owner
        self._ask_model = ask_model
        self._has_budget = has_budget
        self._conversation = ""
        #: The number of messages in the client's request: requests of one conversation differ in it.
        self._length = 0
        #: By the name in the client's request with the tools, and by the name that the target knows.
        self._offered: dict[str, OfferedFunction] = {}
        self._names: dict[str, str] = {}
        #: Functions that are not in the request, by the name that a result gave the model.
        self._undeclared: dict[str, OfferedFunction] = {}
        self._edits: list[Callable[[Message], Message]] = []
        self._sources: list[Citation] = []
        #: How often the model was asked again, and how often it may be.
        self._asked_again = 0
        self._max_rounds = settings.rounds
        self._seconds_left = settings.seconds
        self.runs: list[RunRecord] = []

    # Without I/O: what is added to the request, and which calls are withheld.

    def apply(self, request: Request, target: TargetFacts) -> Request:
        """The request with the functions of all tools that apply; the same object if none does."""
        if request.tool_choice is not None and request.tool_choice.mode == "none":
            return request
        self._conversation, self._length = name_conversation(self._owner, request), len(request.messages)
        changed = self._memory.restore(self._conversation, request)
        functions: list[Tool] = []
        self._offered, self._undeclared, self._edits = {}, {}, []
        for tool in self._tools:
            offer = _find_offer(tool, partial(tool.offer, changed, target))
            if offer is None and any(each.tool.returns_pictures for each in self._offered.values()):
                offer = _find_offer(tool, partial(tool.offer_for_results, target))
            if offer is not None:
                changed = offer.request or changed
                functions += self._add_offer(tool, offer, changed)
        if not functions:
            return request
        # The conversation holds the numbers of earlier sources, so later ones get others.
        self._sources = list(self._memory.list_sources(self._conversation))
        choice = self._fit_choice(changed.tool_choice)
        return replace(changed, tools=(*changed.tools, *functions), tool_choice=choice)

    def _add_offer(self, tool: GatewayTool, offer: ToolOffer, request: Request) -> list[Tool]:
        """Note what a tool offers. Returns its functions, under names that the request does not have."""
        declared = {each.name for each in list_declared_tools(request)}
        functions: list[Tool] = []
        for function in offer.functions:
            name = function.name
            while name in declared or name in self._offered:
                name = f"gateway_{name}"
            self._offered[name] = OfferedFunction(tool, function.name, offer.context, function.schema)
            functions.append(replace(function, name=name))
        for name in offer.undeclared:
            if name not in declared and name not in self._offered:
                self._undeclared[name] = OfferedFunction(tool, name, offer.context)
        if offer.edit_results is not None:
            self._edits.append(offer.edit_results)
        return functions

    def edit_results(self, message: Message) -> Message:
        """A message with results, as the model of this request can read it."""
        for edit in self._edits:
            message = edit(message)
        return message

    def _fit_choice(self, choice: ToolChoice | None) -> ToolChoice | None:
        """The client's choice; a list of allowed tools also has the functions, and a hosted tool is one."""
        if choice is None or choice.mode not in ("allowed", "named"):
            return choice
        if choice.mode == "allowed":
            return replace(choice, allowed=(*choice.allowed, *self._offered), form="", extras={})
        renamed = next((name for name, each in self._offered.items() if each.name == choice.name), "")
        is_hosted = bool(renamed) and choice.kind != "function"
        return ToolChoice(mode="named", name=renamed) if is_hosted else choice

    def build_stages(self, asked: Request, target: TargetFacts) -> list[Stage]:
        """The stages of the next round."""
        names = build_name_map(asked, target)
        self._names = {names.find("function", "", name)[1]: name for name in self._offered}
        stages: list[Stage] = [GatewayCallStage({**self._undeclared, **self._names}, self._max_rounds)]
        return [CitationStage(self._sources), *stages] if self._sources else stages

    def withholds(self, name: str) -> bool:
        return name in self._names or name in self._undeclared

    def remember(self, rounds: Sequence[Round]) -> None:
        """Keep what the client did not see of a reply that has ended."""
        known = [replace(each, withheld=tuple(map(self._restore_name, each.withheld))) for each in rounds]
        self._memory.remember(self._conversation, known)
        if self._sources:
            cut = [replace(each, quote=each.quote[:MAX_QUOTE]) for each in self._sources]
            self._memory.keep_sources(self._conversation, cut)

    def _restore_name(self, withheld: WithheldCall) -> WithheldCall:
        call = withheld.call
        return replace(withheld, call=replace(call, name=self._names.get(call.name, call.name)))

    # With I/O: the runs between two rounds.

    async def run(self, calls: Sequence[ToolCall], spent: int) -> list[tuple[ToolResult, ToolOutcome]]:
        """Run the calls of one round. `spent`: the tokens of the reply so far. Failures become errors."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        slots = asyncio.Semaphore(MAX_PARALLEL)
        has_time, has_tokens = self._seconds_left > 0, not 0 < self._settings.tokens <= spent
        is_stopped = not (has_time and has_tokens and self._has_budget())
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    self._run_call(call, self._name_run(call, place), slots, is_stopped=is_stopped)
                )
                for place, call in enumerate(calls)
            ]
        self._seconds_left -= loop.time() - began
        self._asked_again += 1
        if is_stopped:
            self._max_rounds = self._asked_again
        outcomes = [task.result() for task in tasks]
        return [(self._build_result(call, each), each) for call, each in zip(calls, outcomes, strict=True)]

    def _name_run(self, call: ToolCall, place: int) -> str:
        """The name of a run. Servers may give calls of several rounds, or of several turns, one id."""
        parts = (self._conversation, str(self._length), str(self._asked_again), str(place), call.id)
        return SHOWN_MARK + digest(*parts, length=20)

    async def _run_call(
        self, call: ToolCall, name: str, slots: asyncio.Semaphore, *, is_stopped: bool
    ) -> ToolOutcome:
        known = self._names.get(call.name)
        offered = self._offered[known] if known is not None else self._undeclared[call.name]
        loop = asyncio.get_running_loop()
        began = loop.time()
        run: ToolRun | None = None
        try:
            run = ToolRun(
                name=offered.name,
                owner=self._owner,
                id=name,
                arguments=_read_arguments(call.arguments, offered.schema),
                context=offered.context,
                ask_model=self._ask_model,
            )
            if is_stopped:
                raise ToolFailed("the limit of time, tokens or money for the gateway's tools is reached")
            async with slots, asyncio.timeout(min(self._settings.run_seconds, self._seconds_left)):
                outcome = _read_outcome(await offered.tool.run(run))
        except TimeoutError:
            outcome = _build_error("the tool took too long", offered.tool, run)
        except ToolFailed as error:
            outcome = _build_error(str(error), offered.tool, run)
        except asyncio.CancelledError:
            if is_leaving():
                raise
            outcome = _build_error("the tool failed (CancelledError)", offered.tool, run)
        except (Exception, SystemExit) as error:  # A tool of a third party must not break the reply.
            outcome = _build_error(f"the tool failed ({type(error).__name__})", offered.tool, run)
        self.runs.append(RunRecord(offered.name, loop.time() - began, outcome.is_error))
        return outcome

    def _build_result(self, call: ToolCall, outcome: ToolOutcome) -> ToolResult:
        """The result for the model: bounded, with the numbers of its sources."""
        content: list[Text | Media] = []
        left = self._settings.result_chars
        first = len(self._sources) + 1
        self._sources += outcome.sources
        if outcome.sources:
            listed = (_list_source(number, each) for number, each in enumerate(outcome.sources, first))
            texts = (SOURCES, *listed)
            outcome = replace(outcome, content=(Text(text="\n\n".join(texts)), *outcome.content))
        for block in outcome.content:
            if isinstance(block, Text):
                kept, left = block.text[:left], left - len(block.text)
                content.append(Text(text=kept if left >= 0 else f"{kept}\n[cut: the result is too long]"))
                if left < 0:
                    break
            elif len(block.data) > MAX_PICTURE:
                content.append(Text(text="[left out: the picture is too large]"))
            else:
                content.append(block)
        if self._asked_again >= self._max_rounds:
            content.append(Text(text=LAST_CALL))
        return ToolResult(call_id=call.id, name=call.name, content=tuple(content), is_error=outcome.is_error)


def is_leaving() -> bool:
    """Whether this task itself is cancelled. If not, `CancelledError` is a failure of a tool."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _find_offer(tool: GatewayTool, offer: Callable[[], ToolOffer | None]) -> ToolOffer | None:
    """What a tool offers. One of a third party that fails offers nothing, and the request goes on."""
    try:
        return offer()
    except (Exception, SystemExit) as error:
        LOGGER.warning("the tool %s is left out: it failed (%s)", type(tool).__name__, type(error).__name__)
        return None


def _read_outcome(result: object) -> ToolOutcome:
    """The outcome of a run, which may be a text."""
    if isinstance(result, str):
        return ToolOutcome(content=(Text(text=result),))
    if not isinstance(result, ToolOutcome):
        raise TypeError
    return result


def _list_source(number: int, source: Citation) -> str:
    return "\n".join(filter(None, (f"[{number}] {source.title}".rstrip(), source.url, source.quote)))


def _read_arguments(arguments: str, schema: dict[str, object] | None) -> dict[str, object]:
    """The arguments of a call, also if the model wrote them as nearly JSON. Half a call does not run."""
    repaired = repair(arguments, schema)
    is_whole = _COMPLETED.isdisjoint(repaired.steps) or repair(arguments, schema, truncated=True).ok
    value = decode_object(repaired.text) if repaired.ok and is_whole else None
    if value is None:
        raise ToolFailed("the arguments must be a JSON object")
    return value


def _build_error(reason: str, tool: GatewayTool, run: ToolRun | None) -> ToolOutcome:
    """The outcome of a run that failed. `run` is None if its arguments could not be read."""
    shown: tuple[HostedCall | HostedResult, ...] = ()
    with suppress(Exception):  # A tool of a third party must not break the reply.
        shown = tool.show_failure(run, reason) if run is not None else ()
    return ToolOutcome(content=(Text(text=f"Error: {reason}."),), is_error=True, shown=shown)
