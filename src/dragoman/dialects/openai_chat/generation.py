"""Reads and writes the token limit, stop sequences, effort and output format."""

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.names import STOP_TEXT, add_inner, read_optional_text, split_inner
from dragoman.hub.request import EFFORTS, OutputFormat, ReasoningSettings, Request
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import Fields

#: The names of the token limit in a body.
CAPS = ("max_completion_tokens", "max_tokens")
OUTPUT_KINDS = ("text", "json_object", "json_schema")

#: OpenAI's current name of the token limit. Many compatible servers know only the older `max_tokens`.
CAP = "max_completion_tokens"


def read_max_tokens(fields: Fields, paths: dict[str, str]) -> int | None:
    """Read the token limit, and record its name in `paths`."""
    for name in CAPS:
        cap = fields.maybe_integer(name)
        if cap is not None:
            paths["max_tokens"] = name
            return cap
    return None


def read_stop(fields: Fields, flags: list[str]) -> tuple[str, ...]:
    """Read the stop sequences: one string, which a flag records, or a list."""
    value = fields.rest().get("stop")
    if value == "":
        return ()
    if isinstance(value, str):
        flags.append(STOP_TEXT)
        return (fields.text("stop"),)
    return fields.texts("stop")


def read_effort(fields: Fields) -> ReasoningSettings | None:
    """Read the effort. An unknown effort stays in the extras."""
    value = fields.rest().get("reasoning_effort")
    for effort in EFFORTS:
        if value == effort:
            fields.raw("reasoning_effort")
            return ReasoningSettings(effort=effort)
    if value is not None and not isinstance(value, str):
        fields.text("reasoning_effort")
    return None


def read_output(fields: Fields) -> OutputFormat | None:
    """Read `response_format`. A format of unknown type stays in the extras."""
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
        name=read_optional_text(inner, "name"),
        description=read_optional_text(inner, "description"),
        schema=schema.rest() if schema is not None else None,
        strict=inner.maybe_flag("strict"),
        extras=add_inner(output.rest(), "json_schema", inner.rest()),
    )


def choose_limit_name(request: Request, target: TargetFacts, *, same_dialect: bool) -> str:
    """The name of the token limit: the target's, or the client's, or OpenAI's current one."""
    return target.max_tokens_field or (request.path_of("max_tokens") if same_dialect else CAP)


def write_output(output: OutputFormat, *, same_dialect: bool) -> Json:
    """Write `response_format`."""
    extras = output.extras if same_dialect else {}
    if output.kind != "json_schema":
        return {"type": output.kind, **extras}
    outer, inner = split_inner(extras, "json_schema")
    schema: Json = {}
    if output.name or not same_dialect:
        # Other dialects do not require the name.
        schema["name"] = output.name or "answer"
    if output.description:
        schema["description"] = output.description
    if output.schema is not None:
        schema["schema"] = output.schema
    if output.strict is not None:
        schema["strict"] = output.strict
    return {"type": "json_schema", "json_schema": {**schema, **inner}, **outer}
