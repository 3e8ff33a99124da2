"""Reads a client's body into a request. Unknown fields stay in the extras, so nothing is lost.

Values that mean the same as their absence (`stream: false`, an empty list) stay in the extras too, so that
the body for a server of this dialect is the body of the client.
"""

from dragoman.dialects.base import Json
from dragoman.dialects.openai_chat.message_reader import MessageReader
from dragoman.dialects.openai_chat.spelling import (
    LEGACY_FUNCTIONS,
    NAME,
    SAFETY_IDENTIFIER,
    STOP_TEXT,
    add_inner,
    build_form,
)
from dragoman.dialects.openai_chat.tools import LEGACY, read_choice, read_tools
from dragoman.hub.loss import Losses
from dragoman.hub.request import EFFORTS, OutputFormat, ReasoningSettings, Request
from dragoman.wire.fields import Fields

#: The paths of hub fields with another name here. The names of the token limit and the user depend on the
#: body.
PATHS = {
    "candidates": "n",
    "parallel_calls": "parallel_tool_calls",
    "reasoning": "reasoning_effort",
    "output": "response_format",
    "cache_key": "prompt_cache_key",
    "include_usage": "stream_options.include_usage",
    "turns": "messages",
}
CAPS = ("max_completion_tokens", "max_tokens")
OUTPUT_KINDS = ("text", "json_object", "json_schema")


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    """Read a client's body and empty it."""
    fields = Fields(body)
    flags: list[str] = []
    paths = dict(PATHS)
    named = fields.text("model") if not model or fields.has("model") else model
    messages = fields.objects("messages")
    if not messages:
        raise fields.error("expected at least one message, got an empty array", "messages")
    reader = MessageReader()
    turns = tuple(reader.read(message, number) for number, message in enumerate(messages))
    tools = read_tools(fields)
    choice = read_choice(fields)
    if any(tool.form == LEGACY for tool in tools) or (choice is not None and choice.form == LEGACY):
        flags.append(LEGACY_FUNCTIONS)
    return Request(
        dialect=NAME,
        model=named,
        turns=turns,
        tools=tools,
        tool_choice=choice,
        parallel_calls=fields.maybe_flag("parallel_tool_calls"),
        stream=_read_flag(fields, "stream") or stream,
        include_usage=_read_include_usage(fields),
        max_tokens=_read_max_tokens(fields, paths),
        stop=_read_stop(fields, flags),
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
        reasoning=_read_effort(fields),
        output=_read_output(fields),
        verbosity=_read_optional_text(fields, "verbosity"),
        service_tier=_read_optional_text(fields, "service_tier"),
        cache_key=_read_optional_text(fields, "prompt_cache_key"),
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


def _read_optional_text(fields: Fields, name: str) -> str:
    """Read a text whose absence means empty. An empty text stays in the extras."""
    if fields.rest().get(name) == "":
        return ""
    return fields.text_or(name, "")


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


def _read_max_tokens(fields: Fields, paths: dict[str, str]) -> int | None:
    for name in CAPS:
        cap = fields.maybe_integer(name)
        if cap is not None:
            paths["max_tokens"] = name
            return cap
    return None


def _read_stop(fields: Fields, flags: list[str]) -> tuple[str, ...]:
    value = fields.rest().get("stop")
    if value == "" or value == []:
        return ()
    if isinstance(value, str):
        flags.append(STOP_TEXT)
        return (fields.text("stop"),)
    stops = fields.maybe_list("stop") or []
    texts = tuple(stop for stop in stops if isinstance(stop, str))
    if len(texts) != len(stops):
        raise fields.error("expected an array of strings", "stop")
    return texts


def _read_effort(fields: Fields) -> ReasoningSettings | None:
    """Read the effort. An unknown effort stays in the extras."""
    value = fields.rest().get("reasoning_effort")
    for effort in EFFORTS:
        if value == effort:
            fields.raw("reasoning_effort")
            return ReasoningSettings(effort=effort)
    if value is not None and not isinstance(value, str):
        fields.text("reasoning_effort")
    return None


def _read_output(fields: Fields) -> OutputFormat | None:
    value = fields.rest().get("response_format")
    if isinstance(value, dict) and value.get("type") not in OUTPUT_KINDS:
        return None
    output = fields.maybe_object("response_format")
    if output is None:
        return None
    kind = output.text("type")
    if kind != "json_schema":
        return OutputFormat(kind="json_object" if kind == "json_object" else "text", extras=output.rest())
    inner = output.object("json_schema")
    schema = inner.maybe_object("schema")
    return OutputFormat(
        kind="json_schema",
        name=_read_optional_text(inner, "name"),
        description=_read_optional_text(inner, "description"),
        schema=schema.rest() if schema is not None else None,
        strict=inner.maybe_flag("strict"),
        extras=add_inner(output.rest(), "json_schema", inner.rest()),
    )


def _read_user(fields: Fields, flags: list[str], paths: dict[str, str]) -> str:
    user = _read_optional_text(fields, "user")
    if user:
        return user
    user = _read_optional_text(fields, "safety_identifier")
    if user:
        flags.append(SAFETY_IDENTIFIER)
        paths["user"] = "safety_identifier"
    return user
