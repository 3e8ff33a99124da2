"""Reads a client's body into a request. Unknown fields stay in the extras, so nothing is lost.

Values that mean the same as their absence (`stream: false`, an empty list) stay in the extras too, so that
the body for a server of this dialect is the body of the client.
"""

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.content_reader import MessageReader
from dragoman.dialects.openai_chat.generation import read_effort, read_max_tokens, read_output, read_stop
from dragoman.dialects.openai_chat.names import (
    LEGACY_FUNCTIONS,
    NAME,
    SAFETY_IDENTIFIER,
    add_inner,
    build_form,
    read_optional_text,
)
from dragoman.dialects.openai_chat.tools import LEGACY, read_choice, read_tools
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.wire.fields import Fields, find_first_index

#: The paths of hub fields with another name here. The names of the token limit and the user depend on the
#: body.
PATHS = {
    "candidates": "n",
    "parallel_calls": "parallel_tool_calls",
    "reasoning": "reasoning_effort",
    "output": "response_format",
    "cache_key": "prompt_cache_key",
    "include_usage": "stream_options.include_usage",
}


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    """Read a decoded body into a `Request`. The fields of `body` are removed as they are read."""
    fields = Fields(body)
    flags: list[str] = []
    paths = dict(PATHS)
    named = fields.text("model") if not model or fields.has("model") else model
    first = find_first_index(fields.rest().get("messages"))
    items = fields.objects("messages")
    if not items:
        raise fields.error("expected at least one message, got an empty array", "messages")
    reader = MessageReader()
    messages = tuple(reader.read(item, number) for number, item in enumerate(items, first))
    tools = read_tools(fields)
    choice = read_choice(fields)
    if any(tool.form == LEGACY for tool in tools) or (choice is not None and choice.form == LEGACY):
        flags.append(LEGACY_FUNCTIONS)
    return Request(
        dialect=NAME,
        model=named,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        parallel_calls=fields.maybe_flag("parallel_tool_calls"),
        stream=_read_flag(fields, "stream") or stream,
        include_usage=_read_include_usage(fields),
        max_tokens=read_max_tokens(fields, paths),
        stop=read_stop(fields, flags),
        temperature=fields.maybe_number("temperature"),
        top_p=fields.maybe_number("top_p"),
        top_k=fields.maybe_integer("top_k"),
        presence_penalty=fields.maybe_number("presence_penalty"),
        frequency_penalty=fields.maybe_number("frequency_penalty"),
        seed=fields.maybe_integer("seed"),
        candidates=fields.maybe_integer("n"),
        logprobs=fields.maybe_flag("logprobs"),
        top_logprobs=fields.maybe_integer("top_logprobs"),
        logit_bias=_read_object(fields, "logit_bias"),
        reasoning=read_effort(fields),
        output=read_output(fields),
        verbosity=read_optional_text(fields, "verbosity"),
        service_tier=read_optional_text(fields, "service_tier"),
        cache_key=read_optional_text(fields, "prompt_cache_key"),
        user=_read_user(fields, flags, paths),
        metadata=_read_object(fields, "metadata"),
        store=fields.maybe_flag("store"),
        paths=paths,
        form=build_form(flags),
        extras=fields.rest(),
    )


def _read_flag(fields: Fields, name: str) -> bool:
    """Read a flag whose absence means false. A value of false stays in the extras."""
    if fields.rest().get(name) is False:
        return False
    return bool(fields.maybe_flag(name))


def _read_object(fields: Fields, name: str) -> Json | None:
    inner = fields.maybe_object(name)
    return inner.rest() if inner is not None else None


def _read_include_usage(fields: Fields) -> bool:
    options = fields.maybe_object("stream_options")
    if options is None:
        return False
    include_usage = _read_flag(options, "include_usage")
    rest = fields.rest()
    if not include_usage and not options.rest():
        rest["stream_options"] = {}
    rest.update(add_inner({}, "stream_options", options.rest()))
    return include_usage


def _read_user(fields: Fields, flags: list[str], paths: dict[str, str]) -> str:
    user = read_optional_text(fields, "user")
    if user:
        return user
    user = read_optional_text(fields, "safety_identifier")
    if user:
        flags.append(SAFETY_IDENTIFIER)
        paths["user"] = "safety_identifier"
    return user
