"""Writes a request as a body. A request of this dialect is written as it was received."""

from collections.abc import Sequence

from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses.choice import write_choice
from dragoman.dialects.openai_responses.item_writer import ItemWriter
from dragoman.dialects.openai_responses.request_reader import (
    FIRST_EFFORT,
    NO_INPUT,
    REASONING_FROM_INPUT,
    STRING_INPUT,
    TOP,
)
from dragoman.dialects.openai_responses.tools import write_tools
from dragoman.dialects.openai_responses.vocabulary import ENCRYPTED_REASONING, LOGPROBS, NAME
from dragoman.hub.content import Extras, Text
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import OutputFormat, ReasoningSettings, Request, Turn
from dragoman.providers.profile import Target

#: OpenAI rejects smaller limits.
MIN_OUTPUT_TOKENS = 16

#: OpenAI rejects longer keys and user ids.
KEY_LIMIT = 64

#: Settings with the same name in the hub, written if they are set.
NUMBERS_AND_MAPS = (
    "temperature",
    "top_p",
    "top_logprobs",
    "metadata",
    "store",
)
#: Settings that Open Responses has and OpenAI rejects.
OPEN_RESPONSES = ("presence_penalty", "frequency_penalty")
#: Settings that are written only if they are not empty or false.
TEXTS_AND_FLAGS = ("stream", "service_tier", "previous_response_id")

#: Settings that this API does not have. Stop sequences are not among them: the gateway cuts the reply itself.
UNSPEAKABLE = ("top_k", "seed", "logit_bias", "presence_penalty", "frequency_penalty")


def write_request(request: Request, target: Target, losses: Losses) -> Json:
    own = request.dialect == NAME
    turns = request.turns
    body: Json = {}
    if request.model or target.model:
        body["model"] = target.model or request.model
    top, turns = _split_instructions(turns, own=own)
    if top:
        body["instructions"] = top
    _write_input(body, request, turns, target, losses, own=own)
    _write_tools(body, request, losses, own=own)
    _write_settings(body, request, own=own)
    _write_output_settings(body, request, own=own)
    if own:
        return {**request.extras, **body}
    _write_state(body, request)
    _record_losses(request, losses)
    return body


def _split_instructions(turns: tuple[Turn, ...], *, own: bool) -> tuple[str, tuple[Turn, ...]]:
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
        # The API rejects an empty input, so a conversation of only instructions is written as input.
        writer.items.append({"type": "message", "role": "developer", "content": body.pop("instructions")})
    body["input"] = writer.items


def _write_tools(body: Json, request: Request, losses: Losses, *, own: bool) -> None:
    tools = write_tools(request.tools, losses, own=own)
    if tools:
        body["tools"] = tools
    # OpenAI rejects these fields without tools.
    if tools or own:
        if request.tool_choice is not None:
            body["tool_choice"] = write_choice(request.tool_choice, request.tools, own=own)
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
        body["prompt_cache_key"] = request.cache_key if own else _shorten(request.cache_key)
    if request.user and own:
        body[request.path_of("user")] = request.user
    elif request.user:
        body["safety_identifier"] = _shorten(request.user)
    if request.include:
        body["include"] = list(request.include)


def _shorten(key: str) -> str:
    return key if len(key) <= KEY_LIMIT else digest(key, length=32)


def _write_output_settings(body: Json, request: Request, *, own: bool) -> None:
    if request.reasoning is not None and not (own and REASONING_FROM_INPUT in request.form.split()):
        reasoning = _write_reasoning(request.reasoning, own=own)
        if reasoning or own:
            body["reasoning"] = reasoning
    text: Extras = {}
    kept = request.extras.get("text")
    if own and isinstance(kept, dict):
        text.update(kept)
    if request.output is not None:
        text["format"] = _write_format(request.output, own=own)
    if request.verbosity:
        text["verbosity"] = request.verbosity
    if text:
        body["text"] = text


def _write_reasoning(reasoning: ReasoningSettings, *, own: bool) -> Extras:
    written: Extras = {}
    effort = reasoning.extras.get(FIRST_EFFORT, reasoning.effort) if own else reasoning.effort
    if effort is None and reasoning.mode == "off" and not own:
        effort = "none"
    if effort is not None:
        written["effort"] = effort
    if own:
        if reasoning.style:
            written["summary"] = reasoning.style
        return {
            **written,
            **{name: value for name, value in reasoning.extras.items() if name != FIRST_EFFORT},
        }
    if reasoning.show and effort != "none":
        written["summary"] = "auto"
    return written


def _write_format(output: OutputFormat, *, own: bool) -> Extras:
    written: Extras = {"type": output.kind}
    if output.kind == "json_schema" and not own:
        written |= {"name": output.name or "answer", "schema": output.schema or {}}
        # Its default is true for some servers and false for others.
        written["strict"] = bool(output.strict)
        if output.description:
            written["description"] = output.description
        return written
    if own:
        if output.name:
            written["name"] = output.name
        if output.schema is not None:
            written["schema"] = output.schema
        if output.description:
            written["description"] = output.description
        if output.strict is not None:
            written["strict"] = output.strict
        written |= output.extras
    return written


def _write_state(body: Json, request: Request) -> None:
    """Ask for no stored response, and for sealed thoughts: a client of another dialect keeps its history."""
    body.setdefault("store", False)
    include = list(request.include)
    reasoning = request.reasoning
    thinks = reasoning is not None and reasoning.mode != "off" and reasoning.effort != "none"
    if thinks and ENCRYPTED_REASONING not in include:
        include.append(ENCRYPTED_REASONING)
    if request.logprobs and LOGPROBS not in include:
        include.append(LOGPROBS)
    if include:
        body["include"] = include


def _record_losses(request: Request, losses: Losses) -> None:
    for name in UNSPEAKABLE:
        if getattr(request, name) is not None:
            losses.add(request.path_of(name), "OpenAI Responses has no such setting")
    if request.candidates is not None and request.candidates > 1:
        losses.add(request.path_of("candidates"), "OpenAI Responses gives one answer")
