"""Imports the LiteLLM proxy's `config.yaml`.

LiteLLM shares the load between deployments of one model name; dragoman tries them in order. LiteLLM has
settings per deployment, dragoman per provider, so deployments with different settings become different
providers.
"""

from collections.abc import Mapping
from importlib import import_module

from dragoman.hub.errors import ConfigError
from dragoman.importing.deployment import Deployment, read_deployment
from dragoman.importing.draft import (
    NO_EQUIVALENT,
    ConfigDraft,
    Table,
    build_provider_name,
    read_number,
    read_table,
    read_tables,
    read_texts,
)

_COOLDOWN = "a target that failed is tried last for a while"
#: Settings without an equivalent, and what dragoman does instead.
_NOT_CONVERTED = {
    "litellm_settings.drop_params": "dragoman always removes parameters that a model does not accept",
    "litellm_settings.modify_params": "dragoman always adapts requests to the model",
    "litellm_settings.set_verbose": "see `log` in [server]",
    "litellm_settings.json_logs": 'log = "json" in [server]',
    "litellm_settings.context_window_fallbacks": "the client gets the error about a prompt that is too long",
    "litellm_settings.content_policy_fallbacks": "the client gets the refusal",
    "router_settings.routing_strategy": "targets are tried in order; targets that failed lately come last",
    "router_settings.cooldown_time": _COOLDOWN,
    "router_settings.allowed_fails": _COOLDOWN,
    "general_settings.database_url": "dragoman needs no database; state.url names one for several gateways",
    "general_settings.store_model_in_db": "models are configured in the file",
}
#: The settings that this module converts, by section.
_CONVERTED = {
    "litellm_settings": {"fallbacks", "default_fallbacks", "num_retries", "request_timeout"},
    "router_settings": {"fallbacks", "model_group_alias", "num_retries", "timeout", "default_fallbacks"},
    "general_settings": {"master_key"},
}


def import_litellm(text: str, path: str, variables: Mapping[str, str]) -> ConfigDraft:
    """Convert the text of a `config.yaml`. `path` is used in error messages.

    `variables` is the environment: it resolves addresses that the file reads from variables.
    """
    return LitellmImport(_read_yaml(text, path), variables).draft


def _read_yaml(text: str, path: str) -> Table:
    """The mapping in a YAML text. Uses PyYAML's safe loader, which only this module needs."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise ConfigError(
            "PyYAML is not installed", hint="pip install pyyaml, or pipx inject dragoman pyyaml"
        ) from None
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else path
        # PyYAML's message quotes the file, and that may be a secret.
        raise ConfigError(f"{where}: not valid YAML") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected a mapping with keys such as model_list")
    return {str(key): value for key, value in found.items()}


class LitellmImport:
    """Converts one configuration into `draft`, at construction."""

    def __init__(self, config: Table, variables: Mapping[str, str]) -> None:
        self.draft = ConfigDraft()
        self._config = config
        self._settings = {name: read_table(config.get(name)) for name in _CONVERTED}
        #: Targets (`provider/model`) by the model name of their deployments.
        self._groups: dict[str, list[str]] = {}
        for number, entry in enumerate(read_tables(config.get("model_list"))):
            deployment = read_deployment(entry, f"model_list[{number}]", self.draft, variables)
            if deployment is not None:
                self._convert_deployment(deployment)
        self._convert_server()
        self._add_shared_settings()
        self._convert_routes()
        self._note_other_keys()

    def _convert_deployment(self, deployment: Deployment) -> None:
        name = self._find_provider(deployment)
        if deployment.facts:
            self.draft.open_model(name, deployment.model).update(deployment.facts)
        if deployment.name.endswith("/*") and deployment.model == "*":
            if deployment.name != f"{name}/*":
                text = f"write {name}/MODEL here"
                self.draft.add_note(f"{deployment.place} ({deployment.name})", text)
            return
        if "*" in deployment.model and deployment.model != deployment.name:
            text = "left out: a route with a pattern cannot change the model name"
            self.draft.add_note(f"{deployment.place} ({deployment.name})", text)
            return
        model = "*" if "*" in deployment.model else deployment.model
        self._groups.setdefault(deployment.name, []).append(f"{name}/{model}")

    def _find_provider(self, deployment: Deployment) -> str:
        """The name of an equal provider, with one more key if needed, or of a new one."""
        draft = self.draft
        for name, known in draft.providers.items():
            without = {key: value for key, value in known.items() if key not in ("api_key", "models")}
            # The same model with another key is the same target. For other models, the key must be equal: it
            # may not have access to them.
            is_same = f"{name}/{deployment.model}" in self._groups.get(deployment.name, ())
            if without == deployment.provider and (is_same or deployment.key in _read_keys(known)):
                _add_key(known, deployment.key)
                return name
        wanted = str(deployment.provider.get("preset") or deployment.vendor)
        name = build_provider_name(wanted)
        number = 2
        while name in draft.providers:
            name, number = build_provider_name(f"{wanted}-{number}"), number + 1
        draft.providers[name] = table = dict(deployment.provider)
        draft.set_key(table, deployment.key)
        return name

    def _convert_server(self) -> None:
        key = self._settings["general_settings"].get("master_key")
        if isinstance(key, str) and key:
            reference = self.draft.build_reference(key, "DRAGOMAN_KEY", "general_settings.master_key")
            self.draft.server["keys"] = [reference]

    def _add_shared_settings(self) -> None:
        """Add the file's retries and timeout, which dragoman sets per provider."""
        general, router = self._settings["litellm_settings"], self._settings["router_settings"]
        retries = router.get("num_retries", general.get("num_retries"))
        total = read_number(router.get("timeout", general.get("request_timeout")))
        for provider in self.draft.providers.values():
            if isinstance(retries, int) and 0 <= retries <= 20:
                provider.setdefault("retries", retries)
            if total is not None:
                provider.setdefault("timeouts", {"total": total})

    def _convert_routes(self) -> None:
        draft = self.draft
        fallbacks = self._read_fallbacks()
        for name, targets in self._groups.items():
            distinct = list(dict.fromkeys(targets))
            if len(distinct) > 1:
                text = f"its {len(distinct)} deployments are tried in order; LiteLLM shares the load"
                draft.add_note(f"model_name {name}", text)
            more = [
                target
                for group in fallbacks.get(name, fallbacks.get("*", []))
                for target in self._groups.get(group, [])
            ]
            draft.routes[name] = list(dict.fromkeys((*distinct, *more)))
        aliases = read_table(self._settings["router_settings"].get("model_group_alias"))
        for alias, target in aliases.items():
            group = str(read_table(target).get("model", "")) if isinstance(target, dict) else str(target)
            if group in draft.routes:
                draft.routes.setdefault(alias, draft.routes[group])
            else:
                draft.add_note(
                    f"router_settings.model_group_alias.{alias}", f"left out: there is no {group!r}"
                )

    def _read_fallbacks(self) -> dict[str, list[str]]:
        """The model names to try next, by model name; `*` stands for all others."""
        found: dict[str, list[str]] = {}
        for section in ("litellm_settings", "router_settings"):
            for entry in read_tables(self._settings[section].get("fallbacks")):
                for name, groups in entry.items():
                    found.setdefault(name, []).extend(read_texts(groups))
            default = read_texts(self._settings[section].get("default_fallbacks"))
            if default:
                found.setdefault("*", []).extend(default)
        for name, groups in found.items():
            for group in groups:
                if group not in self._groups:
                    self.draft.add_note(f"fallbacks of {name}", f"left out: there is no {group!r}")
        return found

    def _note_other_keys(self) -> None:
        draft = self.draft
        for section, converted in _CONVERTED.items():
            for key in self._settings[section]:
                place = f"{section}.{key}"
                if key not in converted:
                    draft.add_note(place, _NOT_CONVERTED.get(place, NO_EQUIVALENT))
        for name in read_table(self._config.get("environment_variables")):
            draft.add_note(f"environment_variables.{name}", "set it in the environment if you need it")
        for key in self._config:
            if key not in {*_CONVERTED, "model_list", "environment_variables"}:
                draft.add_note(key, NO_EQUIVALENT)
        if not draft.providers:
            draft.add_note("model_list", "no entry could be converted")


def _add_key(provider: Table, key: str) -> None:
    """Add a key to a provider. Each session uses one of the keys."""
    keys = [known for known in dict.fromkeys((*_read_keys(provider), key)) if known]
    if keys:
        provider["api_key"] = keys[0] if len(keys) == 1 else keys


def _read_keys(provider: Table) -> list[str]:
    """The references to the keys of a provider; one empty text if it has none."""
    known = provider.get("api_key", "")
    return read_texts(known) if isinstance(known, list) else [str(known)]
