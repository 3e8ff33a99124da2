"""Reads and writes the settings of thinking, effort and output format."""

from typing import Literal

from dragoman.dialects.anthropic.names import NAME
from dragoman.dialects.interfaces import Json
from dragoman.hub.loss import Losses
from dragoman.hub.request import Effort, OutputFormat, ReasoningSettings, Request
from dragoman.wire.fields import Fields

_MODES: dict[str, Literal["off", "on", "adaptive"]] = {
    "enabled": "on",
    "adaptive": "adaptive",
    "disabled": "off",
    "between_tools": "adaptive",
}
_TYPES = {"on": "enabled", "adaptive": "adaptive", "off": "disabled"}

#: The efforts that Anthropic accepts.
_EFFORTS: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}


def read_reasoning(fields: Fields, output: Fields | None) -> ReasoningSettings | None:
    """Read `thinking` and the effort in `output_config`. A value of unknown type stays in its place."""
    effort = None if output is None else _read_effort(output)
    value = fields.rest().get("thinking")
    thinking = None if value is None else fields.child(value, "thinking")
    kind = None if thinking is None else thinking.rest().get("type")
    mode = _MODES.get(kind) if isinstance(kind, str) else None
    if thinking is None or mode is None:
        return None if effort is None else ReasoningSettings(effort=effort)
    rest = thinking.rest()
    del fields.rest()["thinking"]
    if kind == _TYPES[mode]:
        del rest["type"]
    style = thinking.text_or("display", "")
    return ReasoningSettings(
        mode=mode,
        effort=effort,
        budget=thinking.maybe_integer("budget_tokens"),
        show=style != "omitted" if style else None,
        style=style,
        extras=rest,
    )


def _read_effort(output: Fields) -> Effort | None:
    value = output.rest().get("effort")
    effort = _EFFORTS.get(value) if isinstance(value, str) else None
    if effort is not None:
        del output.rest()["effort"]
    return effort


def read_format(fields: Fields, output: Fields | None) -> OutputFormat | None:
    """Read `output_config.format`, or the older `output_format`, which the form then records."""
    for holder, name, form in ((output, "format", ""), (fields, "output_format", "output_format")):
        value = None if holder is None else holder.rest().get(name)
        if holder is not None and isinstance(value, dict) and value.get("type") == "json_schema":
            output_format = holder.object(name)
            del output_format.rest()["type"]
            schema = output_format.object("schema").rest()
            return OutputFormat(kind="json_schema", schema=schema, form=form, extras=output_format.rest())
    return None


def write_generation(request: Request, losses: Losses, written: Json) -> None:
    """Add `thinking`, `output_config` and `output_format` to the body."""
    same_dialect = request.dialect == NAME
    output: Json = {}
    reasoning = request.reasoning
    if reasoning is not None:
        thinking = _write_thinking(reasoning, same_dialect=same_dialect)
        if thinking is not None:
            written["thinking"] = thinking
        if reasoning.effort is not None and reasoning.effort != "none":
            if reasoning.effort in _EFFORTS:
                output["effort"] = reasoning.effort
            else:
                losses.add(request.path_of("reasoning"), f"Anthropic has no effort {reasoning.effort!r}")
    output_format = request.output
    if output_format is not None and output_format.kind == "json_schema":
        format_json: Json = {"type": "json_schema", "schema": output_format.schema or {}}
        if same_dialect:
            format_json |= output_format.extras
        holder, name = (
            (written, "output_format") if same_dialect and output_format.form else (output, "format")
        )
        holder[name] = format_json
    elif output_format is not None and output_format.kind == "json_object":
        losses.add(request.path_of("output"), "Anthropic takes a JSON schema, but not JSON of any shape")
    if output:
        written["output_config"] = output


def _write_thinking(reasoning: ReasoningSettings, *, same_dialect: bool) -> Json | None:
    mode = reasoning.mode
    if mode is None and reasoning.effort == "none":
        mode = "off"
    elif mode is None and reasoning.budget is not None:
        mode = "on"
    elif mode is None and reasoning.effort is not None and not same_dialect:
        # Effort alone does not switch thinking on.
        mode = "adaptive"
    if mode is None:
        return None
    if mode == "on" and reasoning.budget is None and not same_dialect:
        mode = "adaptive"
    thinking: Json = {"type": _TYPES[mode]}
    if reasoning.budget is not None and (mode == "on" or (same_dialect and reasoning.budget > 0)):
        thinking["budget_tokens"] = reasoning.budget
    if same_dialect and reasoning.style:
        thinking["display"] = reasoning.style
    elif not same_dialect and reasoning.show is not None and mode != "off":
        thinking["display"] = "summarized" if reasoning.show else "omitted"
    if same_dialect:
        # Two types mean the same mode. The client's type is kept unless a pass has changed the mode.
        client_type = reasoning.extras.get("type")
        kept = isinstance(client_type, str) and _MODES.get(client_type) == mode
        thinking |= {name: value for name, value in reasoning.extras.items() if name != "type" or kept}
    return thinking
