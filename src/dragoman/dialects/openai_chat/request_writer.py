"""Writes a request as a body of the Chat Completions API."""

from collections.abc import Sequence

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.content_writer import MessageWriter
from dragoman.dialects.openai_chat.generation import choose_limit_name, write_output
from dragoman.dialects.openai_chat.names import (
    BREAKPOINT,
    NAME,
    SAFETY_IDENTIFIER,
    STOP_TEXT,
    has_flag,
    split_inner,
)
from dragoman.dialects.openai_chat.tools import write_tools
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, ReasoningSettings, Request
from dragoman.providers.profile import TargetFacts

#: Hub fields that are written unchanged, with their names in this API.
PLAIN_FIELDS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "n": "candidates",
    "logprobs": "logprobs",
    "top_logprobs": "top_logprobs",
    "logit_bias": "logit_bias",
    "metadata": "metadata",
    "store": "store",
}
#: Hub fields that are an empty text if the client did not set them.
WORD_FIELDS = {"verbosity": "verbosity", "service_tier": "service_tier"}


def write_request(request: Request, target: TargetFacts, losses: Losses) -> Json:
    """Build the body for the upstream. For a request of this dialect it equals the client's body."""
    same_dialect = request.dialect == NAME
    body: Json = {
        "model": target.model or request.model,
        "messages": _write_conversation(request, target, losses),
    }
    body.update(write_tools(request, target, losses))
    for name, field in PLAIN_FIELDS.items():
        value = getattr(request, field)
        if value is not None:
            body[name] = value
    for name, field in WORD_FIELDS.items():
        text = getattr(request, field)
        if text:
            body[name] = text
    if request.max_tokens is not None:
        body[choose_limit_name(request, target, same_dialect=same_dialect)] = request.max_tokens
    if request.stop:
        body["stop"] = request.stop[0] if has_flag(request, STOP_TEXT) else list(request.stop)
    if request.user:
        body["safety_identifier" if has_flag(request, SAFETY_IDENTIFIER) else "user"] = request.user
    if request.reasoning is not None:
        body.update(_write_reasoning(request.reasoning, target))
    if request.output is not None:
        body["response_format"] = write_output(request.output, same_dialect=same_dialect)
    _add_caching(request, target, body, same_dialect=same_dialect)
    _add_stream(request, target, body, same_dialect=same_dialect)
    if same_dialect:
        for name, value in split_inner(request.extras, "stream_options")[0].items():
            body.setdefault(name, value)
    return body


def _write_reasoning(reasoning: ReasoningSettings, target: TargetFacts) -> Json:
    if not target.whole_reasoning and reasoning.mode == "off":
        # Qwen at DashScope reasons unless the request forbids it.
        return {"enable_thinking": False}
    return {} if reasoning.effort is None else {"reasoning_effort": reasoning.effort}


def _write_conversation(request: Request, target: TargetFacts, losses: Losses) -> list[Json]:
    messages = write_messages(request, request.messages, target, losses)
    # If all messages are empty, one is kept: the API requires at least one.
    return messages or ([{"role": "user", "content": ""}] if request.messages else [])


def write_messages(
    request: Request, messages: Sequence[Message], target: TargetFacts, losses: Losses
) -> list[Json]:
    """Some messages of the request."""
    return MessageWriter(request, target, losses).write(messages)


def _add_caching(request: Request, target: TargetFacts, body: Json, *, same_dialect: bool) -> None:
    if request.cache_key and (same_dialect or target.caching == "key"):
        body["prompt_cache_key"] = request.cache_key
    if not same_dialect and target.caching == "breakpoints" and _is_marked(body["messages"]):
        body["prompt_cache_options"] = {"mode": "explicit"}


def _is_marked(messages: object) -> bool:
    return any(
        BREAKPOINT in part
        for message in (messages if isinstance(messages, list) else ())
        for part in (message["content"] if isinstance(message.get("content"), list) else ())
    )


def _add_stream(request: Request, target: TargetFacts, body: Json, *, same_dialect: bool) -> None:
    if request.stream:
        body["stream"] = True
    if not same_dialect:
        if request.stream and target.stream_usage:
            body["stream_options"] = {"include_usage": True}
        return
    options = split_inner(request.extras, "stream_options")[1]
    if request.include_usage or options:
        usage_option: Json = {"include_usage": True} if request.include_usage else {}
        body["stream_options"] = {**usage_option, **options}
