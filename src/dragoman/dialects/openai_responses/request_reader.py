"""Reads a client's body into a request. Unknown fields stay in the extras.

A field without content (null, an empty list) stays in the extras too, so that this dialect can write it
again.
"""

from typing import Literal, cast

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses.choice import read_choice
from dragoman.dialects.openai_responses.hosted import UPDATE
from dragoman.dialects.openai_responses.items import ItemReader
from dragoman.dialects.openai_responses.tools import read_tools
from dragoman.dialects.openai_responses.vocabulary import LOGPROBS, NAME, take_flag, take_text
from dragoman.hub.content import Extras, Opaque, Text
from dragoman.hub.loss import Losses
from dragoman.hub.request import EFFORTS, Effort, OutputFormat, ReasoningSettings, Request, Turn
from dragoman.wire.fields import Fields

#: Forms of a request: the input is a text; the body has no `reasoning`, but an item of the input sets it.
STRING_INPUT = "string"
NO_INPUT = "no-input"
REASONING_FROM_INPUT = "reasoning-from-input"

#: The form of the turn from `instructions`.
TOP = "top"

#: A note in the extras of the reasoning settings: the effort of the body, before an item of the input
#: changed it.
FIRST_EFFORT = "@effort"

PATHS = {
    "turns": "input",
    "max_tokens": "max_output_tokens",
    "parallel_calls": "parallel_tool_calls",
    "output": "text.format",
    "verbosity": "text.verbosity",
    "cache_key": "prompt_cache_key",
    "logprobs": "include",
}

FORMATS: tuple[Literal["text", "json_object", "json_schema"], ...] = ("text", "json_object", "json_schema")


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    fields = Fields(body)
    turns, forms = _read_turns(fields, losses)
    reasoning_settings = _read_reasoning(fields)
    updated = _update_reasoning(reasoning_settings, turns)
    if reasoning_settings is None and updated is not None:
        forms.append(REASONING_FROM_INPUT)
    output, verbosity = _read_text(fields)
    include = _read_include(fields)
    user, user_field = _read_user(fields)
    return Request(
        dialect=NAME,
        model=take_text(fields, "model") or model,
        turns=turns,
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
        reasoning=updated,
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
        form=" ".join(forms),
        extras=fields.rest(),
    )


def _read_turns(fields: Fields, losses: Losses) -> tuple[tuple[Turn, ...], list[str]]:
    top: list[Turn] = []
    instructions = take_text(fields, "instructions")
    if instructions:
        text = Text(text=instructions, at="instructions")
        top.append(Turn(role="system", blocks=(text,), at="instructions", form=TOP))
    value = fields.rest().get("input")
    if isinstance(value, str):
        fields.raw("input")
        turn = Turn(role="user", blocks=(Text(text=value, at="input"),), at="input")
        return (*top, turn), [STRING_INPUT]
    if value is None:
        return tuple(top), [NO_INPUT]
    if not isinstance(value, list):
        raise fields.error("expected a string or an array", "input")
    reader = ItemReader(losses)
    for item in fields.objects("input"):
        reader.read(item)
    return (*top, *reader.finish()), []


def _read_include(fields: Fields) -> tuple[str, ...]:
    include = fields.maybe_list("include")
    if include == []:
        fields.rest()["include"] = []
    for index, entry in enumerate(include or ()):
        if not isinstance(entry, str):
            raise fields.error("expected a string", "include", index)
    return tuple(str(entry) for entry in include or ())


def _read_user(fields: Fields) -> tuple[str, str]:
    """The id of the end user and its field; if both fields are present, the newer one counts."""
    identifier = take_text(fields, "safety_identifier")
    if identifier:
        return identifier, "safety_identifier"
    user = take_text(fields, "user")
    return user, "user" if user else "safety_identifier"


def _read_metadata(fields: Fields) -> Extras | None:
    metadata = fields.maybe_object("metadata")
    return None if metadata is None else metadata.rest()


def _read_reasoning(fields: Fields) -> ReasoningSettings | None:
    reasoning = fields.maybe_object("reasoning")
    if reasoning is None:
        return None
    effort = _read_effort(reasoning)
    style = take_text(reasoning, "summary")
    return ReasoningSettings(
        effort=effort, show=True if style else None, style=style, extras=reasoning.rest()
    )


def _read_effort(reasoning: Fields) -> Effort | None:
    """Read the effort. An unknown effort stays in the extras."""
    effort = reasoning.maybe_text("effort")
    if effort is not None and effort not in EFFORTS:
        reasoning.rest()["effort"] = effort
        return None
    return effort


def _update_reasoning(
    reasoning_settings: ReasoningSettings | None, turns: tuple[Turn, ...]
) -> ReasoningSettings | None:
    """The settings with the current effort, which an item in the conversation may have changed.

    The extras keep the effort of the body, for this dialect.
    """
    effort: Effort | None = None
    for turn in turns:
        for block in turn.blocks:
            if isinstance(block, Opaque) and block.kind == UPDATE:
                reasoning = block.value.get("reasoning")
                new_effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
                effort = cast("Effort", new_effort) if new_effort in EFFORTS else effort
    if effort is None:
        return reasoning_settings
    if reasoning_settings is None:
        return ReasoningSettings(effort=effort)
    return msgspec.structs.replace(
        reasoning_settings,
        effort=effort,
        extras={**reasoning_settings.extras, FIRST_EFFORT: reasoning_settings.effort},
    )


def _read_text(fields: Fields) -> tuple[OutputFormat | None, str]:
    """Read the format and the verbosity of `text`. Its rest stays in the extras, also if it is empty."""
    text = fields.maybe_object("text")
    if text is None:
        return None, ""
    output = _read_format(text)
    verbosity = take_text(text, "verbosity")
    if text.rest() or (output is None and not verbosity):
        fields.rest()["text"] = text.rest()
    return output, verbosity


def _read_format(text: Fields) -> OutputFormat | None:
    layout = text.maybe_object("format")
    if layout is None:
        return None
    kind = layout.text("type")
    for known in FORMATS:
        if kind == known:
            schema = layout.maybe_object("schema")
            return OutputFormat(
                kind=known,
                schema=None if schema is None else schema.rest(),
                name=take_text(layout, "name"),
                description=take_text(layout, "description"),
                strict=layout.maybe_flag("strict"),
                extras=layout.rest(),
            )
    raise layout.error("expected text, json_object or json_schema", "type")
