"""Probes of tool calls: the tools that the doctor declares, and the functions that test calls of them."""

from functools import partial

import msgspec

from dragoman.doctor.conversation import ModelConversation, build_results, user_message
from dragoman.doctor.probe_types import ProbeOutcome, quote, report_absence, report_mistake, report_success
from dragoman.doctor.replies import ProbeReply, find_call_family

#: Of a request that asks for reasoning.
REASONING_MAX_TOKENS = 3_072
THINKING = {"type": "enabled", "budget_tokens": 1_024, "display": "summarized"}
CONTRACT_ADVICE = "contract = true below [governance] describes the tools in the system prompt"

#: The provider's stop reasons after which clients expect a tool call.
_CALL_STOP_REASONS = frozenset({"tool_calls", "tool_use", "function_call", "STOP", "completed", ""})
_GREETING = "Hello, how are you today?"
#: Quotes, backslashes, tabs, tags and characters beyond ASCII, as in source code.
_LINES = tuple(f"{number}:\tif path == \"C:\\new\\{number}\": say('é ß <b>')" for number in range(1, 25))


def _tool(name: str, description: str, member: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {member: {"type": "string"}}, "required": [member]}
    return {"name": name, "description": description, "input_schema": schema}


WEATHER = _tool("get_weather", "Tells the weather in a city.", "city")
NOTE = _tool("save_note", "Saves a text, exactly as it is given.", "text")
#: A result with a number that a model does not guess.
_WEATHER_RESULT = "It is 83 degrees in the shade."
_WEATHER_PROOF = "83"


def _request_call(name: str, **arguments: str) -> str:
    """The words that request a call, in a form that the embedded model understands too."""
    return f"call {name} {msgspec.json.encode(arguments).decode()}"


async def check_call(conversation: ModelConversation) -> ProbeOutcome:
    """Request one call, send its result, and look for the result in the final answer."""
    question = user_message(f"Please {_request_call('get_weather', city='Paris')}. Then tell me the degrees.")
    reply = await conversation.ask(question, tools=[WEATHER])
    if not reply.calls:
        return _report_no_call(reply)
    call = reply.calls[0]
    if call.name != "get_weather" or "paris" not in str(call.input.get("city", "")).lower():
        return report_mistake(f"the call is not the requested one: {quote(f'{call.name} {call.input}')}")
    reason = reply.read_raw_stop_reason()
    is_usual = reason in _CALL_STOP_REASONS
    help = () if is_usual else (f"the stop reason of a call is {quote(reason)}; dragoman corrects it",)
    final = await conversation.ask(
        question, *build_results(reply, get_weather=_WEATHER_RESULT), tools=[WEATHER]
    )
    if _WEATHER_PROOF not in final.text:
        return report_mistake(f"the answer does not use the result of the call: {quote(final.text)}")
    return report_success(final, "", *help)


def _report_no_call(reply: ProbeReply) -> ProbeOutcome:
    family = find_call_family(reply.text, WEATHER)
    if family:
        return report_mistake(
            f"calls are written as plain text, in the format of {family}",
            advice=f'harvest = "{family}" below [governance] turns this text into calls',
            facts={"call_family": family},
        )
    return report_mistake(f"no call; the answer is {quote(reply.text)}", advice=CONTRACT_ADVICE)


async def check_parallel_calls(conversation: ModelConversation) -> ProbeOutcome:
    """Request two calls in one turn and send both results."""
    paris, rome = (_request_call("get_weather", city=city) for city in ("Paris", "Rome"))
    question = user_message(f"Please {paris} and {rome}, both at once.")
    reply = await conversation.ask(question, tools=[WEATHER])
    if len(reply.calls) < 2:
        advice = "agents still work, with one call in each turn"
        return report_mistake(f"{len(reply.calls)} of 2 calls", advice=advice)
    results = build_results(reply, get_weather=_WEATHER_RESULT)
    return report_success(await conversation.ask(question, *results, tools=[WEATHER]))


async def check_forced_call(conversation: ModelConversation) -> ProbeOutcome:
    """Require a call of any tool where the conversation needs none. Works if the answer has a call."""
    reply = await conversation.ask(user_message(_GREETING), tools=[WEATHER], tool_choice={"type": "any"})
    if not reply.calls:
        advice = "the server ignores tool_choice; agents must ask for calls in the prompt"
        return report_mistake("the answer contains no call", advice=advice)
    return report_success(reply)


async def check_named_call(conversation: ModelConversation) -> ProbeOutcome:
    """Require a call of one named tool. Works if the first call is of that tool."""
    choice = {"type": "tool", "name": "save_note"}
    reply = await conversation.ask(user_message(_GREETING), tools=[WEATHER, NOTE], tool_choice=choice)
    if [call.name for call in reply.calls][:1] != ["save_note"]:
        advice = "agents must ask for the tool in the prompt"
        return report_mistake("the named tool was not called", advice=advice)
    return report_success(reply)


async def check_reasoning_replay(conversation: ModelConversation) -> ProbeOutcome:
    """Request a call with reasoning enabled, and send the model's message back with the result."""
    question = user_message(f"Please think, and {_request_call('get_weather', city='Paris')}.")
    ask = partial(conversation.ask, max_tokens=REASONING_MAX_TOKENS, thinking=THINKING, tools=[WEATHER])
    reply = await ask(question)
    if not reply.calls:
        return report_absence("no call while reasoning is enabled")
    results = build_results(reply, get_weather=_WEATHER_RESULT)
    final = await ask(question, *results)
    return report_success(final, "" if reply.thinking else "the message contains no reasoning")


async def check_long_arguments(conversation: ModelConversation) -> ProbeOutcome:
    """Request a call with 24 lines of source code and compare them."""
    text = "\n".join(_LINES)
    question = user_message(f"Please {_request_call('save_note', text=text)}")
    reply = await conversation.ask(question, max_tokens=2_048, tools=[NOTE])
    if not reply.calls:
        return report_mistake(f"no call; the answer is {quote(reply.text)}")
    is_broken = not _is_object(reply.read_raw_arguments()[:1])
    received = str(reply.calls[0].input.get("text", ""))
    if received == text:
        help = ("dragoman repaired the arguments, which were not valid JSON",) if is_broken else ()
        return report_success(reply, "", *help)
    if is_broken:
        advice = 'tools = "hold" below [governance] repairs them'
        return report_mistake("the arguments are not valid JSON", advice=advice)
    same = sum(ours == theirs for ours, theirs in zip(_LINES, received.split("\n"), strict=False))
    advice = "let the agent write in smaller steps"
    return report_mistake(f"{same} of {len(_LINES)} lines are unchanged", advice=advice)


def _is_object(arguments: list[str]) -> bool:
    try:
        return all(isinstance(msgspec.json.decode(text or "{}"), dict) for text in arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
