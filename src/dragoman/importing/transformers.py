"""The transformers of claude-code-router: the equivalent of each, for the importer and docs/import.md."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from dragoman.importing.draft import ConfigDraft, Table, add_governance, read_number
from dragoman.importing.vendors import CCR_DIALECTS, CCR_UNREACHABLE
from dragoman.telemetry.redaction import redact

#: The longest answer, in tokens, that the router's transformer `deepseek` asks for.
DEEPSEEK_LIMIT = 8192

#: Adds the equivalent to the draft, for a provider's name, a model or `*`, and the options. Returns a note
#: for the report if something has no equivalent.
Convert = Callable[[ConfigDraft, str, str, Table], str]


class Transformer(NamedTuple):
    """A row: what dragoman has instead of a transformer of claude-code-router, and the conversion.

    `equivalent` is the text of the documentation. Without `convert` nothing is converted.
    """

    equivalent: str
    convert: Convert | None = None
    #: For the report, if there is no equivalent.
    note: str = ""


def convert_transformer(draft: ConfigDraft, provider: str, model: str, used: str, options: Table) -> str:
    """Convert one transformer of a provider. `used` is its name in lower case. Returns a note, or nothing."""
    row = TRANSFORMERS.get(used)
    if row is None:
        return "dragoman has no such transformer"
    return row.convert(draft, provider, model, options) if row.convert else row.note


def _convert_maxtoken(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    limit = read_number(options.get("max_tokens"))
    if limit is None:
        return "its `max_tokens` is no limit"
    draft.open_model(provider, model)["max_output_tokens"] = int(limit)
    return ""


def _convert_deepseek(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    """claude-code-router limits the answers of every server that has this transformer."""
    if "preset" in draft.providers[provider]:
        return ""
    return _convert_maxtoken(draft, provider, model, {"max_tokens": DEEPSEEK_LIMIT})


def _convert_sampling(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    """The options replace the client's values; `max_tokens` is a limit of them."""
    values = {name: value for name, value in options.items() if name != "max_tokens"}
    note = _convert_maxtoken(draft, provider, model, options) if "max_tokens" in options else ""
    return _convert_openrouter(draft, provider, model, values) or note


def _convert_maxcompletiontokens(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    draft.open_model(provider, model)["max_tokens_field"] = "max_completion_tokens"
    return ""


def _govern(name: str, value: object) -> Convert:
    """Converts a transformer into one governance setting."""

    def convert(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
        table = draft.providers[provider] if model == "*" else draft.open_model(provider, model)
        add_governance(table, {name: value})
        return ""

    return convert


def _convert_forcereasoning(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    name = "force_reasoning"
    if model != "*":
        name = f"force_reasoning_{len(draft.steps) + 1}"
        draft.steps[name] = {"use": "force_reasoning", "models": model}
    steps = draft.providers[provider].setdefault("steps", [])
    if isinstance(steps, list) and name not in steps:
        steps.append(name)
    return ""


def _convert_reasoning(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    if options.get("enable", True):
        return ""
    off: Table = {"thinking": {"type": "disabled"}, "enable_thinking": False}
    return _convert_openrouter(draft, provider, model, off)


def _convert_openrouter(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    """Write the transformer's options into the requests, by a payload rule, as claude-code-router does.

    Returns a note about options that cannot be written.
    """
    usable = {name: value for name, value in options.items() if _is_usable(name, value)}
    _add_payload(draft, provider, model, {"set": usable})
    return _note_others(options, usable)


def _convert_customparams(draft: ConfigDraft, provider: str, model: str, options: Table) -> str:
    """Convert `customparams` to a payload rule. Returns a note about options that cannot be written.

    claude-code-router adds the missing values, and replaces the given members of objects that are there.
    """
    usable = {name: value for name, value in options.items() if _is_usable(name, value)}
    values: Table = {}
    defaults: Table = {}
    for name, value in usable.items():
        inner = _list_paths(name, value)
        if name in inner:
            defaults[name] = value
        values |= {path: each for path, each in inner.items() if path != name}
    _add_payload(draft, provider, model, {"set": values, "default": defaults})
    return _note_others(options, usable)


def _list_paths(path: str, value: object) -> Table:
    """The values inside of an object, by path. An object whose names cannot be in a path is one value."""
    if not isinstance(value, dict) or not value or not all(name and "." not in name for name in value):
        return {path: value}
    found: Table = {}
    for name, inner in value.items():
        found |= _list_paths(f"{path}.{name}", inner)
    return found


def _add_payload(draft: ConfigDraft, provider: str, model: str, edits: Table) -> None:
    edits = {name: values for name, values in edits.items() if values}
    rules = draft.providers[provider].setdefault("payload", []) if edits else None
    if isinstance(rules, list):
        rules.append(edits if model == "*" else {"models": model, **edits})


def _note_others(options: Table, usable: Table) -> str:
    others = ", ".join(name for name in options if name not in usable)
    return f"left out: {others}" if others else ""


def _is_usable(name: str, value: object) -> bool:
    """Whether a payload rule can edit the member, and the file may have the value: no null, no secret."""
    text = msgspec.json.encode({name: value}).decode()
    is_writable = not _has_null(value) and redact(text) == text
    return is_writable and name not in ("", "model", "stream") and "." not in name


def _has_null(value: object) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(_has_null, parts))


def _leave_out(reason: str) -> Transformer:
    return Transformer(f"none: {reason}", note=reason)


_ADAPTED = Transformer("not needed: the preset of the address has the facts about the server")

#: By the router's name, in lower case.
TRANSFORMERS: dict[str, Transformer] = {
    **{name: Transformer(f'`dialect = "{dialect}"`') for name, dialect in CCR_DIALECTS.items()},
    "openai": Transformer("not needed: it is the default"),
    "deepseek": Transformer(
        "the preset of the address; at other addresses the fact `max_output_tokens = 8192`", _convert_deepseek
    ),
    "groq": _ADAPTED,
    "kimi": _ADAPTED,
    "openrouter": Transformer("the preset; its options become a payload rule", _convert_openrouter),
    "maxtoken": Transformer("the fact `max_output_tokens`", _convert_maxtoken),
    "maxcompletiontokens": Transformer(
        'the fact `max_tokens_field = "max_completion_tokens"`', _convert_maxcompletiontokens
    ),
    "streamoptions": Transformer("not needed: the fact `stream_usage` is on by default"),
    "sampling": Transformer(
        "the fact `sampling`; its options become a payload rule and `max_output_tokens`", _convert_sampling
    ),
    "cleancache": Transformer("not needed; the fact `caching` says what a model accepts"),
    "customparams": Transformer("a payload rule", _convert_customparams),
    "reasoning": Transformer(
        "not needed; with `enable: false` a payload rule that switches it off", _convert_reasoning
    ),
    "tooluse": Transformer('governance `choice = "required"`', _govern("choice", "required")),
    "enhancetool": Transformer('governance `tools = "hold"`', _govern("tools", "hold")),
    "extrathinktag": Transformer('governance `harvest = "auto"`', _govern("harvest", "auto")),
    "forcereasoning": Transformer("the step `force_reasoning`", _convert_forcereasoning),
    **{name: _leave_out(reason) for name, reason in CCR_UNREACHABLE.items()},
}
