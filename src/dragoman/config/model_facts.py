"""Facts about a provider's models, by source: preset, catalogue, learned file, configuration file.

The learned file is beside the configuration: `dragoman doctor --write` stores there what it found out. It has
the same form, so a table can be moved from one file to the other.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from dragoman.config.config import Config, model_keys
from dragoman.config.document import TomlDocument, TomlTable
from dragoman.config.provider import FactLayer, FactsByModel, Provider, TargetName
from dragoman.config.value_kinds import TABLE, ConfigKey
from dragoman.governance.settings import Governance
from dragoman.providers.dialect_facts import DIALECT_FACTS
from dragoman.providers.facts import PERMISSIVE, Facts, list_changes
from dragoman.providers.presets import Preset, load_catalogue
from dragoman.providers.prices import Prices, read_prices

#: The name of the source for facts in the learned file.
LEARNED_SOURCE = "learned"
#: The beginning of a value that names a file with the text.
FILE = "file:"
#: The keys of the learned file.
_LEARNED_ROOT = {"providers": ConfigKey(TABLE, "Learned facts, by provider.")}
_LEARNED_PROVIDER = {"models": ConfigKey(TABLE, "Learned facts, by model.")}


def read_models(provider: TomlTable) -> FactsByModel:
    """The checked facts in the tables below `models`, without their governance."""
    models: FactsByModel = {}
    for name, table in provider.table("models").named_tables():
        table.check(model_keys())
        models[name] = {key: value for key, value in table.values.items() if key != "governance"}
        if table.text("instructions").startswith(FILE):
            models[name]["instructions"] = _read_instructions(table)
    return models


def _read_instructions(table: TomlTable) -> str:
    """The text of the file that `instructions` names, relative to the folder of the configuration."""
    path = Path(table.file).absolute().parent / table.text("instructions").removeprefix(FILE).strip()
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise table.error(f"cannot read the file: {error}", "instructions") from None
    if not text.strip():
        raise table.error("the file is empty", "instructions")
    return text


def build_layers(preset_name: str, preset: Preset, learned: FactsByModel) -> tuple[FactLayer, ...]:
    """The facts from outside the configuration file, in ascending precedence."""
    catalogue = load_catalogue(preset.catalogue or preset_name)
    layers = (
        FactLayer(source=f"preset {preset_name}", models={"*": preset.facts} if preset.facts else {}),
        FactLayer(
            source=f"catalogue {catalogue.checked}" if catalogue else "",
            models=catalogue.models if catalogue else {},
            is_stated=False,
        ),
        FactLayer(source=LEARNED_SOURCE, models=learned),
    )
    return tuple(layer for layer in layers if layer.models)


def learned_path(config_path: str) -> Path:
    """The path of the learned file that belongs to a configuration file."""
    return Path(config_path).with_suffix(".learned.toml")


def read_learned(text: str, path: str) -> dict[str, FactsByModel]:
    """The learned facts by provider. Errors name the line, as in the configuration."""
    root = TomlDocument(text, path).root()
    root.check(_LEARNED_ROOT)
    learned = {}
    for name, table in root.table("providers").named_tables():
        table.check(_LEARNED_PROVIDER)
        learned[name] = read_models(table)
    return learned


def find_prices(config: Config, target: TargetName) -> Prices | None:
    """The prices of a model at its provider; None if they are unknown, which does not mean free."""
    provider = config.providers.get(target.provider)
    return read_prices(provider.build_profile(target.model).facts) if provider else None


class SourcedValue(msgspec.Struct, frozen=True):
    """The value of a fact in one source."""

    value: object
    source: str


class ExplainedFact(msgspec.Struct, frozen=True, kw_only=True):
    """The value that applies, its source, and the different value of a weaker source that it replaces."""

    name: str
    value: object
    source: str
    instead_of: SourcedValue | None = None


def explain_facts(provider: Provider, model: str, *, include_dialect: bool = False) -> list[ExplainedFact]:
    """The facts about a model with their sources, in the order of the documentation.

    Facts that only the dialect states, which hold for every model of the dialect, need `include_dialect`.
    """
    dialect = provider.wire_dialect
    dialect_facts = list_changes(DIALECT_FACTS.get(dialect, PERMISSIVE))
    values = {name: [_source(value, f"dialect {dialect}")] for name, value in dialect_facts.items()}
    stated = set(values) if include_dialect else set()
    for source, facts in provider.list_sources(model):
        stated |= facts.keys()
        for name, value in facts.items():
            values.setdefault(name, []).append(_source(value, source))
    return [_explain(name, values[name]) for name in Facts.__struct_fields__ if name in stated]


def _source(value: object, source: str) -> SourcedValue:
    """The value in the form that a file has: sets and tuples as lists, sets in order."""
    if isinstance(value, frozenset):
        return SourcedValue(sorted(value), source)
    return SourcedValue(list(value) if isinstance(value, tuple) else value, source)


def _explain(name: str, values: list[SourcedValue]) -> ExplainedFact:
    last = values[-1]
    others = [value for value in values if value.value != last.value]
    return ExplainedFact(
        name=name, value=last.value, source=last.source, instead_of=others[-1] if others else None
    )


def explain_governance(
    provider: Provider, model: str, route: str, route_changes: Mapping[str, object]
) -> list[ExplainedFact]:
    """The governance of a model's tool calls: stated values and those that differ from the defaults."""
    used, usual = provider.find_governance(model, route_changes), Governance()
    sources = dict(provider.governance_sources)
    for changes, source in (
        (provider.find_model_governance(model), "configuration of the model"),
        (route_changes, f"route {route}"),
    ):
        sources |= dict.fromkeys(changes, source)
    if used.contract and not sources.get("contract"):
        sources["contract"] = "fact function_calling"
    values = {name: getattr(used, name) for name in Governance.__struct_fields__}
    return [
        ExplainedFact(name=name, value=_describe_setting(value), source=sources.get(name, "default"))
        for name, value in values.items()
        if name in sources or value != getattr(usual, name)
    ]


def _describe_setting(value: object) -> object:
    """Guard rules by their names, a ready set by its own; every other value as it is."""
    return list({rule.name.split("/")[0]: None for rule in value}) if isinstance(value, tuple) else value
