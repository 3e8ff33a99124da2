"""What is asked of the model besides an answer: thinking, effort and the form of the output, both ways."""

from typing import Literal

from dragoman.dialects.anthropic.spelling import NAME
from dragoman.dialects.base import Json
from dragoman.hub.loss import Losses
from dragoman.hub.request import Effort, OutputFormat, ReasoningSettings, Request
from dragoman.wire.fields import Fields

_MODES: dict[str, Literal["off", "on", "adaptive"]] = {
    "enabled": "on",
    "adaptive": "adaptive",
    "disabled": "off",
    "between_tools": "adaptive",
}
_WORDS = {"on": "enabled", "adaptive": "adaptive", "off": "disabled"}

#: The efforts that Anthropic has words for.
_EFFORTS: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}


def read_wish(fields: Fields, output: Fields | None) -> ReasoningSettings | None:
    """Thinking from `thinking`, effort from `output_config`. What is of unknown type stays where it was."""
    effort = None if output is None else _read_effort(output)
    asked = fields.rest().get("thinking")
    told = None if asked is None else fields.child(asked, "thinking")
    kind = None if told is None else told.rest().get("type")
    mode = _MODES.get(kind) if isinstance(kind, str) else None
    if told is None or mode is None:
        return None if effort is None else ReasoningSettings(effort=effort)
    rest = told.rest()
    del fields.rest()["thinking"]
    if kind == _WORDS[mode]:
        del rest["type"]
    style = told.text_or("display", "")
    return ReasoningSettings(
        mode=mode,
        effort=effort,
        budget=told.maybe_integer("budget_tokens"),
        show=style != "omitted" if style else None,
        style=style,
        extras=rest,
    )


def _read_effort(output: Fields) -> Effort | None:
    word = output.rest().get("effort")
    effort = _EFFORTS.get(word) if isinstance(word, str) else None
    if effort is not None:
        del output.rest()["effort"]
    return effort


def read_format(fields: Fields, output: Fields | None) -> OutputFormat | None:
    """From `output_config.format`, or from the older `output_format`, which the form then remembers."""
    for holder, name, form in ((output, "format", ""), (fields, "output_format", "output_format")):
        told = None if holder is None else holder.rest().get(name)
        if holder is not None and isinstance(told, dict) and told.get("type") == "json_schema":
            asked = holder.object(name)
            del asked.rest()["type"]
            schema = asked.object("schema").rest()
            return OutputFormat(kind="json_schema", schema=schema, form=form, extras=asked.rest())
    return None


def write_controls(request: Request, losses: Losses, written: Json) -> None:
    """Add `thinking`, `output_config` and `output_format` to the body."""
    own = request.dialect == NAME
    output: Json = {}
    wish = request.reasoning
    if wish is not None:
        thinking = _thinking(wish, own=own)
        if thinking is not None:
            written["thinking"] = thinking
        if wish.effort is not None and wish.effort != "none":
            if wish.effort in _EFFORTS:
                output["effort"] = wish.effort
            else:
                losses.add(request.path_of("reasoning"), f"Anthropic has no effort {wish.effort!r}")
    asked = request.output
    if asked is not None and asked.kind == "json_schema":
        told: Json = {"type": "json_schema", "schema": asked.schema or {}}
        if own:
            told |= asked.extras
        holder, name = (written, "output_format") if own and asked.form else (output, "format")
        holder[name] = told
    elif asked is not None and asked.kind == "json_object":
        losses.add(request.path_of("output"), "Anthropic takes a JSON schema, but not JSON of any shape")
    if output:
        written["output_config"] = output


def _thinking(wish: ReasoningSettings, *, own: bool) -> Json | None:
    mode = wish.mode
    if mode is None and wish.effort == "none":
        mode = "off"
    elif mode is None and wish.budget is not None:
        mode = "on"
    elif mode is None and wish.effort is not None and not own:
        # Effort alone does not switch thinking on.
        mode = "adaptive"
    if mode is None:
        return None
    if mode == "on" and wish.budget is None and not own:
        mode = "adaptive"
    thinking: Json = {"type": _WORDS[mode]}
    if wish.budget is not None and (mode == "on" or (own and wish.budget > 0)):
        thinking["budget_tokens"] = wish.budget
    if own and wish.style:
        thinking["display"] = wish.style
    elif not own and wish.show is not None and mode != "off":
        thinking["display"] = "summarized" if wish.show else "omitted"
    if own:
        # Two words mean the same mode; the client's stands only while the mode does.
        word = wish.extras.get("type")
        kept = isinstance(word, str) and _MODES.get(word) == mode
        thinking |= {name: value for name, value in wish.extras.items() if name != "type" or kept}
    return thinking
