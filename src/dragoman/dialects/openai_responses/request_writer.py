"""A hub request as a body of this dialect: the client's own words again, or the plainest for another's."""

from collections.abc import Sequence

from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses.choice import spell_choice
from dragoman.dialects.openai_responses.item_writer import ItemWriter
from dragoman.dialects.openai_responses.request_reader import (
    FIRST_EFFORT,
    NO_INPUT,
    REASONING_FROM_INPUT,
    STRING_INPUT,
    TOP,
)
from dragoman.dialects.openai_responses.tools import spell_tools
from dragoman.dialects.openai_responses.vocabulary import ENCRYPTED_REASONING, LOGPROBS, NAME
from dragoman.hub.content import Extras, Text
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import OutputFormat, ReasoningSettings, Request, Turn
from dragoman.providers.profile import Target

#: OpenAI refuses smaller caps.
MIN_OUTPUT_TOKENS = 16

#: OpenAI refuses longer keys and user ids.
KEY_LIMIT = 64

#: Settings with the same name here as in the hub, written when they are set at all.
NUMBERS_AND_MAPS = (
    "temperature",
    "top_p",
    "top_logprobs",
    "metadata",
    "store",
)
#: Those that Open Responses has and OpenAI refuses.
OPEN_RESPONSES = ("presence_penalty", "frequency_penalty")
#: Settings that say nothing when they are empty or false.
TEXTS_AND_FLAGS = ("stream", "service_tier", "previous_response_id")

#: What this dialect has no word for. Stop texts are not among them: the gateway cuts the reply itself.
UNSPEAKABLE = ("top_k", "seed", "logit_bias", "presence_penalty", "frequency_penalty")


def write_request(request: Request, target: Target, losses: Losses) -> Json:
    own = request.dialect == NAME
    turns = request.turns
    body: Json = {}
    if request.model or target.model:
        body["model"] = target.model or request.model
    top, turns = _instructions(turns, own=own)
    if top:
        body["instructions"] = top
    _write_input(body, request, turns, target, losses, own=own)
    _write_tools(body, request, losses, own=own)
    _write_settings(body, request, own=own)
    _write_wishes(body, request, own=own)
    if own:
        return {**request.extras, **body}
    _write_state(body, request)
    _tell_losses(request, losses)
    return body


def _instructions(turns: tuple[Turn, ...], *, own: bool) -> tuple[str, tuple[Turn, ...]]:
    """The text of the leading system turns, and the turns after them."""
    texts: list[str] = []
    for number, turn in enumerate(turns):
        leads = turn.form == TOP if own else turn.role in ("system", "developer")
        if not leads or not all(isinstance(block, Text) for block in turn.blocks):
            return "\n".join(texts), turns[number:]
        texts += [block.text for block in turn.blocks if isinstance(block, Text) and block.text]
    return "\n".join(texts), ()


def _write_input(
    body: Json, request: Request, turns: Sequence[Turn], target: Target, losses: Losses, *, own: bool
) -> None:
    forms = request.form.split() if own else []
    if NO_INPUT in forms and not turns:
        return
    if STRING_INPUT in forms and len(turns) == 1 and len(turns[0].blocks) == 1:
        block = turns[0].blocks[0]
        if isinstance(block, Text):
            body["input"] = block.text
            return
    writer = ItemWriter(target, losses, own=own)
    for turn in turns:
        writer.write(turn)
    if not writer.items and "instructions" in body and not own:
        # An empty input is refused, so a conversation that is all instructions says them as input.
        writer.items.append({"type": "message", "role": "developer", "content": body.pop("instructions")})
    body["input"] = writer.items


def _write_tools(body: Json, request: Request, losses: Losses, *, own: bool) -> None:
    tools = spell_tools(request.tools, losses, own=own)
    if tools:
        body["tools"] = tools
    # Alone, OpenAI refuses them.
    if tools or own:
        if request.tool_choice is not None:
            body["tool_choice"] = spell_choice(request.tool_choice, request.tools, own=own)
        if request.parallel_calls is not None:
            body["parallel_tool_calls"] = request.parallel_calls


def _write_settings(body: Json, request: Request, *, own: bool) -> None:
    for name in (*NUMBERS_AND_MAPS, *OPEN_RESPONSES) if own else NUMBERS_AND_MAPS:
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    for name in TEXTS_AND_FLAGS:
        value = getattr(request, name)
        if value:
            body[name] = value
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens if own else max(MIN_OUTPUT_TOKENS, request.max_tokens)
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key if own else _short(request.cache_key)
    if request.user and own:
        body[request.path_of("user")] = request.user
    elif request.user:
        body["safety_identifier"] = _short(request.user)
    if request.include:
        body["include"] = list(request.include)


def _short(key: str) -> str:
    return key if len(key) <= KEY_LIMIT else digest(key, length=32)


def _write_wishes(body: Json, request: Request, *, own: bool) -> None:
    if request.reasoning is not None and not (own and REASONING_FROM_INPUT in request.form.split()):
        reasoning = _spell_reasoning(request.reasoning, own=own)
        if reasoning or own:
            body["reasoning"] = reasoning
    text: Extras = {}
    kept = request.extras.get("text")
    if own and isinstance(kept, dict):
        text.update(kept)
    if request.output is not None:
        text["format"] = _spell_format(request.output, own=own)
    if request.verbosity:
        text["verbosity"] = request.verbosity
    if text:
        body["text"] = text


def _spell_reasoning(wish: ReasoningSettings, *, own: bool) -> Extras:
    spelled: Extras = {}
    effort = wish.extras.get(FIRST_EFFORT, wish.effort) if own else wish.effort
    if effort is None and wish.mode == "off" and not own:
        effort = "none"
    if effort is not None:
        spelled["effort"] = effort
    if own:
        if wish.style:
            spelled["summary"] = wish.style
        return {**spelled, **{name: value for name, value in wish.extras.items() if name != FIRST_EFFORT}}
    if wish.show and effort != "none":
        spelled["summary"] = "auto"
    return spelled


def _spell_format(output: OutputFormat, *, own: bool) -> Extras:
    spelled: Extras = {"type": output.kind}
    if output.kind == "json_schema" and not own:
        spelled |= {"name": output.name or "answer", "schema": output.schema or {}}
        # Left out, it would mean true for some servers and false for others.
        spelled["strict"] = bool(output.strict)
        if output.description:
            spelled["description"] = output.description
        return spelled
    if own:
        if output.name:
            spelled["name"] = output.name
        if output.schema is not None:
            spelled["schema"] = output.schema
        if output.description:
            spelled["description"] = output.description
        if output.strict is not None:
            spelled["strict"] = output.strict
        spelled |= output.extras
    return spelled


def _write_state(body: Json, request: Request) -> None:
    """Another dialect's client keeps its history itself, sealed thought included."""
    body.setdefault("store", False)
    include = list(request.include)
    wish = request.reasoning
    thinks = wish is not None and wish.mode != "off" and wish.effort != "none"
    if thinks and ENCRYPTED_REASONING not in include:
        include.append(ENCRYPTED_REASONING)
    if request.logprobs and LOGPROBS not in include:
        include.append(LOGPROBS)
    if include:
        body["include"] = include


def _tell_losses(request: Request, losses: Losses) -> None:
    for name in UNSPEAKABLE:
        if getattr(request, name) is not None:
            losses.add(request.path_of(name), "OpenAI Responses has no such setting")
    if request.candidates is not None and request.candidates > 1:
        losses.add(request.path_of("candidates"), "OpenAI Responses gives one answer")
