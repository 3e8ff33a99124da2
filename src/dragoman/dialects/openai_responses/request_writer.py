"""Writes a request body for an upstream.

A request that came in this dialect is written as it was received. Any other one is written in the form that
most upstreams accept.
"""

from collections.abc import Sequence

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses.content_writer import InputWriter
from dragoman.dialects.openai_responses.generation import write_generation
from dragoman.dialects.openai_responses.names import (
    ENCRYPTED_REASONING,
    LOGPROBS,
    NAME,
    STRING,
    drop_none,
)
from dragoman.dialects.openai_responses.request_reader import NO_INPUT, TOP
from dragoman.dialects.openai_responses.tools import write_choice, write_tools
from dragoman.hub.blocks import Text
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts

#: OpenAI refuses smaller limits.
MIN_OUTPUT_TOKENS = 16

#: OpenAI refuses longer cache keys and user ids.
KEY_LIMIT = 64

#: Settings with the same name here as in the hub, written if they are set.
NUMBERS_AND_MAPS = ("temperature", "top_p", "top_logprobs", "metadata", "store")
#: Those that Open Responses has and OpenAI refuses.
OPEN_RESPONSES = ("presence_penalty", "frequency_penalty")
#: Settings that have no meaning if they are empty or false.
TEXTS_AND_FLAGS = ("stream", "service_tier", "previous_response_id")

#: Settings that this API does not have. Stop texts are not among them: the gateway cuts the reply itself.
UNSUPPORTED = ("top_k", "seed", "logit_bias", *OPEN_RESPONSES)


def write_request(request: Request, target: TargetFacts, losses: Losses) -> Json:
    """Build the body for the upstream from a request that fits the target."""
    same_dialect = request.dialect == NAME
    body: Json = {}
    if request.model or target.model:
        body["model"] = target.model or request.model
    instructions, messages = _split_instructions(request.messages, same_dialect=same_dialect)
    if target.instructions and instructions != target.instructions:
        if instructions:
            messages = (Message(role="developer", blocks=(Text(text=instructions),)), *messages)
        instructions = target.instructions
    if instructions:
        body["instructions"] = instructions
    _write_input(body, request, messages, target, losses, same_dialect=same_dialect)
    _write_tools(body, request, losses, same_dialect=same_dialect)
    _write_settings(body, request, same_dialect=same_dialect)
    write_generation(body, request, same_dialect=same_dialect)
    if same_dialect:
        return {**request.extras, **body}
    _write_state(body, request)
    _report_losses(request, losses)
    return body


def _split_instructions(
    messages: tuple[Message, ...], *, same_dialect: bool
) -> tuple[str, tuple[Message, ...]]:
    """The text of the leading system messages, and the messages after them."""
    texts: list[str] = []
    for number, message in enumerate(messages):
        is_leading = message.form == TOP if same_dialect else message.role in ("system", "developer")
        if not is_leading or not all(isinstance(block, Text) for block in message.blocks):
            return "\n".join(texts), messages[number:]
        texts += [block.text for block in message.blocks if isinstance(block, Text) and block.text]
    return "\n".join(texts), ()


def _write_input(
    body: Json,
    request: Request,
    messages: Sequence[Message],
    target: TargetFacts,
    losses: Losses,
    *,
    same_dialect: bool,
) -> None:
    flags = request.form.split() if same_dialect else []
    if NO_INPUT in flags and not messages:
        return
    if STRING in flags and len(messages) == 1 and len(messages[0].blocks) == 1:
        block = messages[0].blocks[0]
        if isinstance(block, Text):
            body["input"] = block.text
            return
    items = write_messages(request, messages, target, losses)
    if not items and "instructions" in body and not same_dialect:
        # OpenAI refuses an empty input, so instructions without a conversation become the input.
        items.append({"type": "message", "role": "developer", "content": body.pop("instructions")})
    body["input"] = items


def write_messages(
    request: Request, messages: Sequence[Message], target: TargetFacts, losses: Losses
) -> list[Json]:
    """The items of some messages of the request, which are no instructions."""
    writer = InputWriter(target, losses, same_dialect=request.dialect == NAME)
    for message in messages:
        writer.write(message)
    return writer.items


def _write_tools(body: Json, request: Request, losses: Losses, *, same_dialect: bool) -> None:
    tools = write_tools(request.tools, losses, same_dialect=same_dialect)
    if tools:
        body["tools"] = tools
    # OpenAI refuses these settings without tools.
    if tools or same_dialect:
        if request.tool_choice is not None:
            body["tool_choice"] = write_choice(request.tool_choice, request.tools, same_dialect=same_dialect)
        if request.parallel_calls is not None:
            body["parallel_tool_calls"] = request.parallel_calls


def _write_settings(body: Json, request: Request, *, same_dialect: bool) -> None:
    names = (*NUMBERS_AND_MAPS, *OPEN_RESPONSES) if same_dialect else NUMBERS_AND_MAPS
    body |= drop_none({name: getattr(request, name) for name in names})
    body |= {name: value for name in TEXTS_AND_FLAGS if (value := getattr(request, name))}
    if request.max_tokens is not None:
        body["max_output_tokens"] = (
            request.max_tokens if same_dialect else max(MIN_OUTPUT_TOKENS, request.max_tokens)
        )
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key if same_dialect else _shorten(request.cache_key)
    if request.user and same_dialect:
        body[request.path_of("user")] = request.user
    elif request.user:
        body["safety_identifier"] = _shorten(request.user)
    if request.include:
        body["include"] = list(request.include)


def _shorten(key: str) -> str:
    return key if len(key) <= KEY_LIMIT else digest(key, length=32)


def _write_state(body: Json, request: Request) -> None:
    """A client of another dialect keeps its history itself, so it needs the encrypted reasoning."""
    body.setdefault("store", False)
    include = list(request.include)
    settings = request.reasoning
    has_reasoning = settings is not None and settings.mode != "off" and settings.effort != "none"
    if has_reasoning and ENCRYPTED_REASONING not in include:
        include.append(ENCRYPTED_REASONING)
    if request.logprobs and LOGPROBS not in include:
        include.append(LOGPROBS)
    if include:
        body["include"] = include


def _report_losses(request: Request, losses: Losses) -> None:
    for name in UNSUPPORTED:
        if getattr(request, name) is not None:
            losses.add(request.path_of(name), "OpenAI Responses has no such setting")
    if request.candidates is not None and request.candidates > 1:
        losses.add(request.path_of("candidates"), "OpenAI Responses gives one answer")
