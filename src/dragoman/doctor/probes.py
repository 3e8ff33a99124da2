"""The table of probes, and the probes that do not concern tool calls."""

import msgspec

from dragoman.doctor import tool_probes as tools
from dragoman.doctor.conversation import SYSTEM, Message, ModelConversation, user_message
from dragoman.doctor.findings import Facts
from dragoman.doctor.probe_types import (
    Probe,
    ProbeFunction,
    ProbeOutcome,
    Remedy,
    quote,
    report_absence,
    report_mistake,
    report_success,
)
from dragoman.doctor.replies import has_reasoning_tags

_PING = user_message('Please say "pong".')
_SENTENCE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
#: A red PNG image, 64 by 64 pixels.
_RED = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BA"
    "QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC"
)
_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}
#: Vendors cache prompts from about a thousand tokens on.
_LONG_SYSTEM = "\n".join(
    (SYSTEM, *(f"Rule {number}: keep to the rules before this one." for number in range(1, 140)))
)
_UNKNOWN_MODEL = "dragoman-doctor-no-such-model"
#: Failure kinds that make a client correct its request instead of retrying it.
_CLIENT_MISTAKES = ("invalid_request", "not_found", "permission")


async def check_answer(conversation: ModelConversation) -> ProbeOutcome:
    """Request one word. Works if the answer has text."""
    reply = await conversation.ask(_PING)
    if not reply.text.strip():
        advice = "a model that only reasons needs a higher output limit: see the probe `reasoning`"
        return report_mistake("the answer is empty", advice=advice)
    return report_success(reply)


async def check_streaming(conversation: ModelConversation) -> ProbeOutcome:
    """Request a sentence and count the deltas of the stream."""
    reply = await conversation.ask(user_message(f'Please say "{_SENTENCE}".'))
    if reply.is_whole:
        help = "dragoman turns its complete answers into streams"
        return report_success(reply, "the server does not stream", help)
    deltas = reply.count_deltas()
    if deltas == 0:
        return report_mistake("the stream ends without text")
    return report_success(reply, "in one piece" if deltas == 1 else f"in {deltas} pieces")


async def check_token_counts(conversation: ModelConversation) -> ProbeOutcome:
    """Look for token counts in the latest answer; ask once more if there is none."""
    last = conversation.last
    reply = last if last and last.failure is None else await conversation.ask(_PING)
    if not reply.usage.input or not reply.usage.output:
        advice = "budgets are based on estimates for this model"
        return report_absence("the server does not report them; dragoman estimates", advice=advice)
    return report_success(reply)


async def check_reasoning(conversation: ModelConversation) -> ProbeOutcome:
    """Request a small calculation with reasoning enabled."""
    question = user_message("Please think. What is 17 times 23?")
    reply = await conversation.ask(question, max_tokens=tools.REASONING_MAX_TOKENS, thinking=tools.THINKING)
    if has_reasoning_tags(reply.text):
        return report_mistake(
            "the answer contains the reasoning, between tags",
            advice='harvest = "auto", or the name of the model family, below [governance] separates it',
        )
    if reply.thinking:
        return report_success(reply, "visible")
    if reply.usage.reasoning:
        return report_success(reply, f"{reply.usage.reasoning} tokens, not visible")
    return report_absence("the reply contains no reasoning")


async def check_images(conversation: ModelConversation) -> ProbeOutcome:
    """Request the colour of an image."""
    image: Message = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _RED}}
    text: Message = {"type": "text", "text": "Which colour is this picture? Answer with one word."}
    reply = await conversation.ask(user_message([image, text]))
    if "red" not in reply.text.lower():
        return report_mistake(
            f"the answer about a red image is {quote(reply.text)}",
            advice="if the model does not read images, set images = false: agents then get a notice",
        )
    return report_success(reply)


async def check_stop_sequences(conversation: ModelConversation) -> ProbeOutcome:
    """Request a sentence that contains a stop sequence."""
    question = user_message('Please say "alpha HALT omega".')
    reply = await conversation.ask(question, stop_sequences=["HALT"])
    if "omega" in reply.text or "HALT" in reply.text:
        return report_mistake(f"the answer goes on after it: {quote(reply.text)}")
    return report_success(reply)


async def check_structured_output(conversation: ModelConversation) -> ProbeOutcome:
    """Request an answer that follows a JSON Schema."""
    output = {"format": {"type": "json_schema", "schema": _SCHEMA}}
    reply = await conversation.ask(user_message("A capital and its country, as JSON."), output_config=output)
    try:
        members = set(msgspec.json.decode(reply.text, type=dict[str, str]))
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        members = set()
    if members != {"city", "country"}:
        return report_mistake(f"the answer does not follow the schema: {quote(reply.text)}")
    return report_success(reply)


async def check_temperature(conversation: ModelConversation) -> ProbeOutcome:
    """Request an answer with a `temperature`, which some models refuse."""
    return report_success(await conversation.ask(_PING, temperature=0.5))


async def check_errors(conversation: ModelConversation) -> ProbeOutcome:
    """Request a model that does not exist, and read the kind of the error."""
    reply = await conversation.ask_model(_UNKNOWN_MODEL, _PING, max_tokens=64)
    failure = reply.failure
    if failure is None:
        return report_success(reply, "the server accepts any model name")
    if failure.kind in _CLIENT_MISTAKES:
        return report_success(reply, f"status {failure.http_status}")
    return report_mistake(
        f"a wrong model name gives status {failure.http_status}: {quote(failure.message)}",
        advice="a mistake looks like an outage, so dragoman retries and fails over without need",
    )


async def check_cache_counters(conversation: ModelConversation) -> ProbeOutcome:
    """Send the same long prompt twice and look for cached tokens."""
    system: Message = {"type": "text", "text": _LONG_SYSTEM, "cache_control": {"type": "ephemeral"}}
    for _ in range(2):
        reply = await conversation.ask(_PING, system=[system], max_tokens=256)
    usage = reply.usage
    if usage.cache_read:
        # Most servers cache without marks. The loss of the marks is no help worth a report.
        detail = f"{usage.cache_read} of {usage.input or usage.cache_read} tokens from the cache"
        return ProbeOutcome(result="works", detail=detail)
    if usage.cache_read is None and usage.cache_write is None:
        return report_absence("the server does not report them")
    advice = "many servers do not cache short or new prompts"
    return report_absence("no token was read from the cache", advice=advice)


_NO_FORCED_CALL = Remedy(
    {"choices": ["auto", "none"]}, "dragoman removes tool_choice and reports a loss", is_last_resort=True
)
_ANY_FORCED_CALL = Remedy(
    {"choices": ["auto", "none", "required"]},
    "dragoman requires any call instead and reports a loss",
    is_last_resort=True,
)
_NO_REASONING = Remedy(
    {"reasoning": "none"}, "dragoman does not request reasoning and reports a loss", is_last_resort=True
)
_TEXT_OUTPUT: Facts = {"outputs": ["text"]}
_IN_PROMPT = "dragoman puts the schema into the prompt"

#: The remedies of each probe, in the order in which they are tried.
_REMEDIES: dict[str, tuple[Remedy, ...]] = {
    "answers": (
        Remedy({"stream_usage": False}, "dragoman does not request token counts in streams"),
        Remedy({"max_tokens_field": "max_completion_tokens"}, "dragoman sends `max_completion_tokens`"),
        Remedy({"system": "leading", "alternation": True}, "dragoman sends system messages first"),
    ),
    "forced call": (_NO_FORCED_CALL,),
    "named call": (_ANY_FORCED_CALL, _NO_FORCED_CALL),
    "reasoning": (
        Remedy({"efforts": ["low", "medium", "high"]}, "dragoman sends low, medium or high effort only"),
        _NO_REASONING,
    ),
    "reasoning replay": (
        Remedy({"replay_reasoning": True}, "dragoman sends the reasoning of earlier messages back"),
        Remedy({"calls_need_reasoning": True}, "dragoman disables reasoning if earlier reasoning is missing"),
        _NO_REASONING,
    ),
    "images": (Remedy({"images": False}, "dragoman replaces images by a notice", is_last_resort=True),),
    "stop sequences": (Remedy({"stop_limit": 0}, "dragoman applies stop sequences itself"),),
    "structured output": (
        Remedy({"outputs": ["text", "json_object"]}, f"{_IN_PROMPT} and requests JSON"),
        Remedy(_TEXT_OUTPUT, _IN_PROMPT),
        Remedy(_TEXT_OUTPUT, f"{_IN_PROMPT}, without success", is_last_resort=True),
    ),
    "temperature": (Remedy({"sampling": []}, "dragoman removes sampling parameters", is_last_resort=True),),
}
_CHECK_NAME = "check that the provider has a model of this name; `dragoman doctor` checks the provider"
_CALLS = ("tools",)


def _probe(
    name: str, asks: str, run: ProbeFunction, needs: tuple[str, ...] = ("answers",), advice: str = ""
) -> Probe:
    return Probe(name=name, asks=asks, run=run, needs=needs, remedies=_REMEDIES.get(name, ()), advice=advice)


#: In the order in which they run: name, what the question asks for, the function, the probes it needs.
PROBES: tuple[Probe, ...] = (
    _probe("answers", "one word, as a stream", check_answer, (), _CHECK_NAME),
    _probe("streaming", "one sentence, and counts the pieces", check_streaming),
    _probe("token counts", "nothing: reads the previous answer", check_token_counts),
    _probe(
        "tools", "one call, and an answer from its result", tools.check_call, advice=tools.CONTRACT_ADVICE
    ),
    _probe(
        "parallel calls", "two calls in one turn, and sends both results", tools.check_parallel_calls, _CALLS
    ),
    _probe("forced call", "small talk, with any call required", tools.check_forced_call, _CALLS),
    _probe("named call", "small talk, with a call of one tool required", tools.check_named_call, _CALLS),
    _probe("reasoning", "a small calculation, with reasoning", check_reasoning),
    _probe(
        "reasoning replay",
        "a call with reasoning, and sends the message back",
        tools.check_reasoning_replay,
        ("tools", "reasoning"),
    ),
    _probe("images", "the colour of a red square", check_images),
    _probe("long arguments", "a call with 24 lines of source code", tools.check_long_arguments, _CALLS),
    _probe("stop sequences", "a sentence that contains a stop sequence", check_stop_sequences),
    _probe("structured output", "a small object that follows a schema", check_structured_output),
    _probe("temperature", "one word, at temperature 0.5", check_temperature),
    _probe("errors", "a model that does not exist", check_errors),
    _probe("cache counters", "the same long prompt twice", check_cache_counters),
)
