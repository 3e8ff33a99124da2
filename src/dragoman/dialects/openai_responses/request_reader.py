"""Reads a client's request body and empties it. Fields that the hub does not know stay in the extras.

A field without content (null, an empty array) stays in the extras, too, so that this dialect writes it again
as it was received.
"""

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses.content_reader import InputReader
from dragoman.dialects.openai_responses.generation import (
    REASONING_FROM_INPUT,
    apply_updates,
    read_reasoning_settings,
    read_text_settings,
)
from dragoman.dialects.openai_responses.names import (
    LOGPROBS,
    NAME,
    STRING,
    take_flag,
    take_text,
)
from dragoman.dialects.openai_responses.tools import read_choice, read_tools
from dragoman.hub.blocks import Extras, Text
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.wire.fields import Fields

#: The form of a request without `input`.
NO_INPUT = "no-input"

#: The form of the message that was `instructions`.
TOP = "top"

#: Where settings stand in the body if their name differs from the hub's.
PATHS = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "parallel_calls": "parallel_tool_calls",
    "output": "text.format",
    "verbosity": "text.verbosity",
    "cache_key": "prompt_cache_key",
    "logprobs": "include",
}


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    """Read a client's body and empty it."""
    fields = Fields(body)
    messages, flags = _read_messages(fields, losses)
    settings = read_reasoning_settings(fields)
    reasoning = apply_updates(settings, messages)
    if settings is None and reasoning is not None:
        flags.append(REASONING_FROM_INPUT)
    output, verbosity = read_text_settings(fields)
    include = fields.texts("include")
    user, user_field = _read_user(fields)
    return Request(
        dialect=NAME,
        model=take_text(fields, "model") or model,
        messages=messages,
        tools=read_tools(fields, "tools"),
        tool_choice=read_choice(fields),
        parallel_calls=fields.maybe_flag("parallel_tool_calls"),
        stream=take_flag(fields, "stream") or stream,
        max_tokens=fields.maybe_integer("max_output_tokens"),
        temperature=fields.maybe_number("temperature"),
        top_p=fields.maybe_number("top_p"),
        presence_penalty=fields.maybe_number("presence_penalty"),
        frequency_penalty=fields.maybe_number("frequency_penalty"),
        logprobs=True if LOGPROBS in include else None,
        top_logprobs=fields.maybe_integer("top_logprobs"),
        reasoning=reasoning,
        output=output,
        verbosity=verbosity,
        service_tier=take_text(fields, "service_tier"),
        cache_key=take_text(fields, "prompt_cache_key"),
        user=user,
        metadata=_read_metadata(fields),
        include=include,
        store=fields.maybe_flag("store"),
        previous_response_id=take_text(fields, "previous_response_id"),
        paths={**PATHS, "user": user_field},
        form=" ".join(flags),
        extras=fields.rest(),
    )


def _read_messages(fields: Fields, losses: Losses) -> tuple[tuple[Message, ...], list[str]]:
    """The messages of `instructions` and `input`, and the flags of the request's form."""
    top: list[Message] = []
    instructions = take_text(fields, "instructions")
    if instructions:
        text = Text(text=instructions, at="instructions")
        top.append(Message(role="system", blocks=(text,), at="instructions", form=TOP))
    value = fields.rest().get("input")
    if isinstance(value, str):
        fields.raw("input")
        message = Message(role="user", blocks=(Text(text=value, at="input"),), at="input")
        return (*top, message), [STRING]
    if value is None:
        return tuple(top), [NO_INPUT]
    if not isinstance(value, list):
        raise fields.error("expected a string or an array", "input")
    reader = InputReader(losses)
    for item in fields.objects("input"):
        reader.read(item)
    return (*top, *reader.messages()), []


def _read_user(fields: Fields) -> tuple[str, str]:
    """The end user's id and its field. `safety_identifier`, the newer field, is preferred."""
    identifier = take_text(fields, "safety_identifier")
    if identifier:
        return identifier, "safety_identifier"
    user = take_text(fields, "user")
    return user, "user" if user else "safety_identifier"


def _read_metadata(fields: Fields) -> Extras | None:
    metadata = fields.maybe_object("metadata")
    return None if metadata is None else metadata.rest()
