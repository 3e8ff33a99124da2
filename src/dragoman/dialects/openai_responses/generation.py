"""Reads and writes the settings `reasoning` and `text`.

An item of the input can change the effort. The settings of the hub then have the changed effort. The effort
of the body is kept in the extras, so that the writer of this dialect writes the body unchanged.
"""

from typing import Literal

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses.hosted import UPDATE
from dragoman.dialects.openai_responses.names import drop_none, get_object, omit, take_text
from dragoman.hub.blocks import Extras, Opaque
from dragoman.hub.request import EFFORTS, Effort, Message, OutputFormat, ReasoningSettings, Request
from dragoman.wire.fields import Fields

#: The form of a request without `reasoning` although an item of the input sets the effort.
REASONING_FROM_INPUT = "reasoning-from-input"

#: Among the extras of the reasoning settings: the effort of the body.
_FIRST_EFFORT = "@effort"

_FORMATS: dict[str, Literal["text", "json_object", "json_schema"]] = {
    "text": "text",
    "json_object": "json_object",
    "json_schema": "json_schema",
}


def read_reasoning_settings(fields: Fields) -> ReasoningSettings | None:
    """Take `reasoning`: the effort, the style of the summary, and the rest as extras."""
    reasoning = fields.maybe_object("reasoning")
    if reasoning is None:
        return None
    effort = reasoning.maybe_text("effort")
    if effort is not None and effort not in EFFORTS:
        # The hub does not know it; a target of this dialect may.
        reasoning.rest()["effort"] = effort
        effort = None
    style = take_text(reasoning, "summary")
    show = True if style else None
    return ReasoningSettings(effort=effort, show=show, style=style, extras=reasoning.rest())


def apply_updates(
    settings: ReasoningSettings | None, messages: tuple[Message, ...]
) -> ReasoningSettings | None:
    """The settings, with the effort that items of the conversation changed."""
    effort: Effort | None = None
    for message in messages:
        for block in message.blocks:
            if isinstance(block, Opaque) and block.kind == UPDATE:
                updated = get_object(block.value, "reasoning").get("effort")
                effort = updated if updated in EFFORTS else effort
    if effort is None:
        return settings
    if settings is None:
        return ReasoningSettings(effort=effort)
    extras = {**settings.extras, _FIRST_EFFORT: settings.effort}
    return msgspec.structs.replace(settings, effort=effort, extras=extras)


def read_text_settings(fields: Fields) -> tuple[OutputFormat | None, str]:
    """The output format and the verbosity. An object `text` with neither stays in the extras."""
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
    kind = _FORMATS.get(layout.text("type"))
    if kind is None:
        raise layout.error("expected text, json_object or json_schema", "type")
    schema = layout.maybe_object("schema")
    return OutputFormat(
        kind=kind,
        schema=None if schema is None else schema.rest(),
        name=take_text(layout, "name"),
        description=take_text(layout, "description"),
        strict=layout.maybe_flag("strict"),
        extras=layout.rest(),
    )


def write_generation(body: Json, request: Request, *, same_dialect: bool) -> None:
    """Write `reasoning` and `text`."""
    if request.reasoning is not None and not (same_dialect and REASONING_FROM_INPUT in request.form.split()):
        reasoning = _write_reasoning(request.reasoning, same_dialect=same_dialect)
        if reasoning or same_dialect:
            body["reasoning"] = reasoning
    text = dict(get_object(request.extras, "text")) if same_dialect else {}
    if request.output is not None:
        text["format"] = _write_format(request.output, same_dialect=same_dialect)
    if request.verbosity:
        text["verbosity"] = request.verbosity
    if text:
        body["text"] = text


def _write_reasoning(settings: ReasoningSettings, *, same_dialect: bool) -> Extras:
    effort = settings.extras.get(_FIRST_EFFORT, settings.effort) if same_dialect else settings.effort
    if effort is None and settings.mode == "off" and not same_dialect:
        effort = "none"
    written: Extras = {} if effort is None else {"effort": effort}
    if same_dialect:
        if settings.style:
            written["summary"] = settings.style
        return written | omit(settings.extras, (_FIRST_EFFORT,))
    if settings.show and effort != "none":
        written["summary"] = "auto"
    return written


def _write_format(output: OutputFormat, *, same_dialect: bool) -> Extras:
    written: Extras = {"type": output.kind}
    if same_dialect:
        members: Extras = {
            "name": output.name or None,
            "schema": output.schema,
            "description": output.description or None,
            "strict": output.strict,
        }
        return {**written, **drop_none(members), **output.extras}
    if output.kind == "json_schema":
        written |= {"name": output.name or "answer", "schema": output.schema or {}}
        # The default is true for some servers and false for others.
        written["strict"] = bool(output.strict)
        if output.description:
            written["description"] = output.description
    return written
