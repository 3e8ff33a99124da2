"""Reads and writes `generationConfig`: sampling, thinking and the output format."""

from dragoman.dialects.gemini.names import (
    NameConverter,
    OutputForm,
    RequestForm,
    extract_below,
    read_output_form,
    write_form,
)
from dragoman.dialects.gemini.tools import read_schema_field, write_schema
from dragoman.dialects.interfaces import Json
from dragoman.hub.request import Effort, OutputFormat, ReasoningSettings, Request
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import Fields

CONFIG = "generationConfig"

NUMBERS = {
    "temperature": "temperature",
    "topP": "top_p",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
INTEGERS = {
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "candidateCount": "candidates",
    "seed": "seed",
    "logprobs": "top_logprobs",
}
FLAGS = {"responseLogprobs": "logprobs"}

#: The paths of hub fields in a Gemini body.
PATHS: dict[str, str] = {
    field: f"{CONFIG}.{name}"
    for name, field in {
        **NUMBERS,
        **INTEGERS,
        **FLAGS,
        "stopSequences": "stop",
        "thinkingConfig": "reasoning",
        "responseMimeType": "output",
    }.items()
} | {"tool_choice": "toolConfig.functionCallingConfig", "service_tier": "serviceTier"}

LEVELS: dict[str, Effort] = {"MINIMAL": "minimal", "LOW": "low", "MEDIUM": "medium", "HIGH": "high"}
LEVEL_NAMES: dict[Effort, str] = {
    "none": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "HIGH",
    "max": "HIGH",
}

JSON = "application/json"
PLAIN = "text/plain"
JSON_SCHEMA = "responseJsonSchema"
SCHEMA = "responseSchema"


def read_generation(body: Fields, converter: NameConverter, form: RequestForm) -> tuple[Json, Json]:
    """The fields of a request that `generationConfig` sets, and its remaining fields."""
    config = body.maybe_object(CONFIG)
    if config is None:
        return {}, {}
    converter.convert(config)
    form.empty_config = not config.rest()
    known: Json = {}
    known |= {field: config.maybe_number(name) for name, field in NUMBERS.items()}
    known |= {field: config.maybe_integer(name) for name, field in INTEGERS.items()}
    known |= {field: config.maybe_flag(name) for name, field in FLAGS.items()}
    known["stop"] = config.texts("stopSequences")
    thinking = config.maybe_object("thinkingConfig")
    if thinking is not None:
        known["reasoning"] = _read_thinking(converter.convert(thinking), form)
    known["output"] = _read_output(config)
    return known, config.rest()


def _read_thinking(config: Fields, form: RequestForm) -> ReasoningSettings:
    show = config.maybe_flag("includeThoughts")
    budget = config.maybe_integer("thinkingBudget")
    level = config.maybe_text("thinkingLevel")
    effort = LEVELS.get(level.upper()) if level else None
    if level is not None and effort is None:
        config.rest()["thinkingLevel"] = level
    elif level is not None and effort and level != LEVEL_NAMES[effort]:
        form.thinking_level = level
    reasoning = ReasoningSettings(show=show, effort=effort, extras=config.rest())
    if budget is None:
        return reasoning
    if budget == 0:
        return ReasoningSettings(mode="off", show=show, effort=effort, extras=reasoning.extras)
    if budget == -1:
        return ReasoningSettings(mode="adaptive", show=show, effort=effort, extras=reasoning.extras)
    return ReasoningSettings(mode="on", budget=budget, show=show, effort=effort, extras=reasoning.extras)


def _read_output(config: Fields) -> OutputFormat | None:
    media_type = config.rest().get("responseMimeType")
    if media_type not in (None, JSON):
        # Other media types, such as an enum, have no equivalent, and neither has their schema.
        if media_type == PLAIN and not config.has(SCHEMA, JSON_SCHEMA):
            config.raw("responseMimeType")
            return OutputFormat(kind="text")
        config.rest()["responseMimeType"] = config.text("responseMimeType")
        return None
    has_media_type = config.maybe_text("responseMimeType") is not None
    schema, field, original = read_schema_field(config, JSON_SCHEMA, SCHEMA)
    if schema is not None:
        form = OutputForm(field=field, original=original, media_type=has_media_type)
        return OutputFormat(kind="json_schema", schema=schema, form=write_form(form))
    return OutputFormat(kind="json_object") if has_media_type else None


def write_generation(request: Request, target: TargetFacts, form: RequestForm, *, native: bool) -> Json:
    """Write `generationConfig`; an empty object if nothing is set."""
    config: Json = {}
    for names in (NUMBERS, INTEGERS, FLAGS):
        for name, field in names.items():
            value = getattr(request, field)
            if value is not None:
                config[name] = value
    if request.stop:
        config["stopSequences"] = list(request.stop)
    if request.reasoning is not None:
        thinking = _write_thinking(request.reasoning, target, form, native=native)
        if thinking or native:
            config["thinkingConfig"] = thinking
    if request.output is not None:
        config |= _write_output(request.output, target, native=native)
    return config | extract_below(CONFIG, request.extras) if native else config


def _write_thinking(
    reasoning: ReasoningSettings, target: TargetFacts, form: RequestForm, *, native: bool
) -> Json:
    config: Json = dict(reasoning.extras) if native else {}
    if reasoning.show is not None:
        config["includeThoughts"] = reasoning.show
    by_level = target.reasoning == "level" and not native
    if reasoning.mode == "off" and by_level:
        config["thinkingLevel"] = LEVEL_NAMES["none"]
    elif reasoning.mode == "off":
        config["thinkingBudget"] = 0
    elif reasoning.mode == "adaptive" and not by_level and (native or reasoning.effort is None):
        config["thinkingBudget"] = -1
    elif reasoning.budget is not None:
        config["thinkingBudget"] = reasoning.budget
    if reasoning.effort is not None and (native or "thinkingBudget" not in config):
        level = LEVEL_NAMES[reasoning.effort]
        same = native and form.thinking_level.upper() == level
        config["thinkingLevel"] = form.thinking_level if same else level
    return config


def _write_output(output: OutputFormat, target: TargetFacts, *, native: bool) -> Json:
    if output.kind == "text":
        return {"responseMimeType": PLAIN} if native else {}
    spelled = read_output_form(output.form) if native else OutputForm(media_type=True)
    config: Json = {"responseMimeType": JSON} if spelled.media_type else {}
    if output.kind == "json_object" or output.schema is None:
        return config
    field = spelled.field or (JSON_SCHEMA if target.json_schema else SCHEMA)
    if field == JSON_SCHEMA and not target.json_schema:
        field = SCHEMA
    original = spelled.original if field == spelled.field else None
    config[field] = original or (write_schema(output.schema) if field == SCHEMA else output.schema)
    return config
