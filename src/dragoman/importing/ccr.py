"""Imports claude-code-router's `config.json`.

Its routes choose by the content of a request, so they become rules; the default becomes the route `*`.
"""

import re
from collections.abc import Mapping

import msgspec

from dragoman.config.rules import LONG_CONTEXT
from dragoman.config.settings import is_loopback
from dragoman.hub.errors import ConfigError
from dragoman.importing.draft import (
    NO_EQUIVALENT,
    ConfigDraft,
    Table,
    build_provider_name,
    fill_in_variables,
    find_variable,
    find_variables,
    is_local,
    read_number,
    read_table,
    read_tables,
    read_texts,
)
from dragoman.importing.transformers import convert_transformer
from dragoman.importing.vendors import CCR_DIALECTS, CCR_UNREACHABLE, build_provider, remove_secrets

#: The router accepts comments and trailing commas. Strings match first, so they are never changed.
_JSON_TOKEN = re.compile(
    r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*[\s\S]*?\*/|,(?=(?:\s|//[^\n]*|/\*[\s\S]*?\*/)*[}\]])'
)
#: Keys of the file that are converted elsewhere in this module.
_CONVERTED = frozenset(
    ("APIKEY", "HOST", "PORT", "Providers", "providers", "Router", "PROXY_URL", "API_TIMEOUT_MS")
) | {"fallback", "profile"}
#: Settings of version 3 that concern its window, its log and its own programs.
_APPLICATION = frozenset(
    {"agent", "autoStart", "botConfigs", "botGateway", "contextArchive", "gateway", "launchAtLogin"}
    | {"mediaTools", "observability", "overviewWidgets", "plugins", "preferredProvider", "providerPlugins"}
    | {"proxy", "routerEndpoint", "theme", "toolHub", "trayComponentVariants", "trayIcon", "trayWidgets"}
    | {"trayProgressTargetTokens", "trayShowTokenRate", "trayWindowModules", "virtualModelProfiles"}
)
_ONE_LINE = "dragoman logs one line per exchange to standard error"
_NO_TRANSFORMERS = "write it anew as a step in Python: `dragoman docs steps` shows how"
#: Keys of the file without an equivalent, and what dragoman does instead.
_NOT_CONVERTED = {
    "LOG": _ONE_LINE,
    "LOG_LEVEL": _ONE_LINE,
    "NON_INTERACTIVE_MODE": "dragoman never asks questions while it serves",
    "CLAUDE_PATH": "`dragoman run claude` finds the program on PATH",
    "StatusLine": "`dragoman statusline` is a status line of Claude Code",
    "CUSTOM_ROUTER_PATH": "write it anew as the Python function of a rule",
    "REWRITE_SYSTEM_PROMPT": "write it anew as a prompt rule: `dragoman docs prompts` shows how",
    "forceUseImageAgent": "[tools.image] does this: set its `target` to the model that sees pictures",
    "transformers": _NO_TRANSFORMERS,
    "Transformers": _NO_TRANSFORMERS,
}
#: The conditions of each route, in the order in which the router tries them. A request without a tag in its
#: prompt passes the rule between.
_SCENARIOS: dict[str, Table] = {
    "image": {"images": "new"},
    "longContext": {"tokens_over": LONG_CONTEXT},
    "background": {"model": "*haiku*"},
    "webSearch": {"web_search": True},
    "think": {"thinking": True},
}
_AFTER_TAG = "background"
#: Keys of a provider that are converted, or that nothing needs: every model of a provider can be used.
_PROVIDER_KEYS = frozenset({"name", "api_base_url", "baseUrl", "api_key", "models", "transformer"})
#: The keys of a profile of version 3 with the model of a route.
_PROFILE_MODELS = {"default": ("model", "sonnetModel", "opusModel"), "background": ("haikuModel",)}


def import_ccr(text: str, path: str, variables: Mapping[str, str] | None = None) -> ConfigDraft:
    """Convert the text of a `config.json`. `path` is used in error messages.

    `variables` is the environment: it resolves addresses and numbers that the file reads from variables.
    """
    return CcrImport(_read_json(text, path), variables or {}).draft


def _read_json(text: str, path: str) -> Table:
    """The object in a JSON text that may contain comments and trailing commas."""
    plain = _JSON_TOKEN.sub(lambda match: match[1] or "", text.removeprefix("\ufeff"))
    try:
        return msgspec.json.decode(plain, type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        # msgspec's message contains a place and a type, but no value, which could be a secret.
        raise ConfigError(f"{path}: expected a JSON object: {error}") from None


class CcrImport:
    """Converts one configuration into `draft`, at construction."""

    def __init__(self, config: Table, variables: Mapping[str, str]) -> None:
        self.draft = ConfigDraft()
        self._config = config
        self._variables = variables
        #: Our name of each provider, by its name in the file.
        self._names: dict[str, str] = {}
        self._convert_server()
        providers = config.get("Providers") or config.get("providers")
        for number, provider in enumerate(providers if isinstance(providers, list) else []):
            if isinstance(provider, dict):
                self._convert_provider(f"Providers[{number}]", provider)
            else:
                self.draft.add_note(f"Providers[{number}]", "left out: it is no provider")
        self._convert_routes(read_table(config.get("Router")))
        self._note_other_keys()

    def _convert_server(self) -> None:
        config, draft = self._config, self.draft
        key = config.get("APIKEY")
        if isinstance(key, str) and key.strip():
            draft.server["keys"] = [draft.build_reference(key, "DRAGOMAN_KEY", "APIKEY")]
        host = self._resolve("HOST", config.get("HOST"))
        if isinstance(host, str) and host:
            if is_loopback(host) or "keys" in draft.server:
                draft.server["host"] = host
            else:
                reason = "without a key it would be open to other machines; it listens on this machine only"
                draft.add_note("HOST", reason)
        port = self._read_number("PORT", config)
        if port is not None and port.is_integer() and port <= 65_535:
            draft.server["port"] = int(port)

    def _resolve(self, place: str, value: object) -> object:
        """The value with the variables in it; None, with a note, if one of them is not set."""
        if not isinstance(value, str):
            return value
        missing = [name for name in find_variables(value) if not self._variables.get(name)]
        for name in missing:
            self.draft.add_note(place, f"{name} is not set: `export {name}=…`, then import again")
        return None if missing else fill_in_variables(value, self._variables)

    def _read_number(self, name: str, table: Table, place: str = "", *, divisor: float = 1.0) -> float | None:
        """The number of a key; None without it. A value that is no number is noted."""
        value = self._resolve(place or name, table.get(name))
        number = read_number(value, divisor=divisor)
        if number is None and value not in (None, "", 0):
            self.draft.add_note(place or name, "left out: expected a number")
        return number

    def _convert_provider(self, place: str, provider: Table) -> None:
        draft = self.draft
        title = str(provider.get("name") or "provider")
        where = f"{place} ({title})"
        stated = provider.get("api_base_url") or provider.get("baseUrl")
        address = self._resolve(f"{where}: api_base_url", stated)
        transformer = read_table(provider.get("transformer"))
        used = [name.lower() for name, _ in _read_transformers(transformer.get("use"))]
        unreachable = next((CCR_UNREACHABLE[name] for name in used if name in CCR_UNREACHABLE), "")
        if unreachable:
            return draft.add_note(where, f"left out: {unreachable}")
        if address is None and stated:
            return None
        if not isinstance(address, str) or not address.startswith(("http://", "https://")):
            return draft.add_note(where, "left out: it has no HTTP address")
        address = remove_secrets(address, where, draft)
        name = self._choose_name(title, where)
        dialect = next((CCR_DIALECTS[each] for each in used if each in CCR_DIALECTS), "")
        table = draft.providers[name] = build_provider(address, dialect)
        key = draft.build_key(provider.get("api_key"), address, f"{title}_API_KEY", f"{place}.api_key")
        draft.set_key(table, key)
        self._add_shared_settings(table, address)
        self._convert_transformers(place, name, transformer)
        others = ", ".join(sorted(provider.keys() - _PROVIDER_KEYS))
        if others:
            draft.add_note(where, f"left out: {others}")
        return None

    def _choose_name(self, title: str, where: str) -> str:
        """Our name of a provider. Of several with the same name the router uses the last one."""
        if title in self._names:
            self.draft.add_note(where, "it replaces the provider above that has the same name")
            return self._names[title]
        name = plain = build_provider_name(title)
        number = 2
        while name in self.draft.providers:
            name, number = f"{plain}-{number}", number + 1
        if name != title:
            self.draft.add_note(where, f"its name is {name!r} here")
        self._names[title] = name
        return name

    def _add_shared_settings(self, table: Table, address: str) -> None:
        """Add the file's proxy and timeout, which dragoman sets per provider. Local servers need no proxy."""
        proxy = self._config.get("PROXY_URL")
        if isinstance(proxy, str) and proxy.strip() and not is_local(address):
            is_secret = find_variable(proxy) or "@" in proxy
            reference = self.draft.build_reference(proxy, "PROXY_URL", "PROXY_URL") if is_secret else ""
            table["proxy"] = reference or proxy.strip()
        total = self._read_number("API_TIMEOUT_MS", self._config, divisor=1_000)
        if total is not None:
            table["timeouts"] = {"total": total}

    def _convert_transformers(self, place: str, name: str, transformer: Table) -> None:
        """Convert the transformers of all models (`use`) and of single models (by model name)."""
        for scope, value in transformer.items():
            is_shared = scope == "use"
            where = f"{place}.transformer" if is_shared else f"{place}.transformer.{scope}"
            listed = value if is_shared else read_table(value).get("use")
            if not isinstance(listed, list) or len(_read_transformers(listed)) < len(listed):
                self.draft.add_note(where, "left out: what is no list of transformers")
            for used, options in _read_transformers(listed):
                model = "*" if is_shared else scope
                note = convert_transformer(self.draft, name, model, used.lower(), options)
                if note:
                    self.draft.add_note(f"{where} ({used.lower()})", note)

    def _convert_routes(self, router: Table) -> None:
        draft = self.draft
        for scenario, when in _SCENARIOS.items():
            if scenario == _AFTER_TAG and self._names:
                draft.rules.append({"preset": "tag"})
            targets = self._list_targets(scenario, router)
            if targets:
                threshold = self._read_number("longContextThreshold", router, "Router.longContextThreshold")
                changes = {"tokens_over": int(threshold)} if "tokens_over" in when and threshold else {}
                draft.rules.append(
                    {"name": scenario, "when": {**when, **changes}, "target": _write_targets(targets)}
                )
        default = self._list_targets("default", router)
        if default:
            draft.routes["*"] = default
        else:
            draft.add_note("Router.default", "no default route to convert; add a route yourself")
        known = {*_SCENARIOS, "default", "fallback", "longContextThreshold"}
        for scenario in router:
            if scenario not in known:
                draft.add_note(f"Router.{scenario}", "dragoman has no such route")
        for scenario in read_table(self._config.get("fallback")):
            if scenario not in known:
                draft.add_note(f"fallback.{scenario}", "dragoman has no such route")
            elif not (router.get(scenario) or self._find_profile_model(scenario)):
                draft.add_note(f"fallback.{scenario}", "never used, because its route is not set")

    def _list_targets(self, scenario: str, router: Table) -> list[str]:
        """The target of a scenario, with its fallbacks as further targets; empty if it has none."""
        found = [(f"Router.{scenario}", router.get(scenario) or self._find_profile_model(scenario))]
        for number, value in enumerate(read_texts(read_table(self._config.get("fallback")).get(scenario))):
            found.append((f"fallback.{scenario}[{number}]", value))
        # Version 3 has one list of fallbacks for all requests, which may be switched off.
        shared = read_table(router.get("fallback"))
        if shared.get("mode") != "off":
            for number, value in enumerate(read_texts(shared.get("models"))):
                found.append((f"Router.fallback.models[{number}]", value))
        if not found[0][1]:
            return []
        targets = [target for place, value in found if (target := self._convert_target(place, value))]
        return list(dict.fromkeys(targets))

    def _find_profile_model(self, scenario: str) -> object:
        """The model that version 3 gives to Claude Code, in a profile instead of a route."""
        profile = read_table(self._config.get("profile"))
        profiles = [
            *(each for each in read_tables(profile.get("profiles")) if each.get("agent") == "claude-code"),
            read_table(profile.get("claudeCode")),
        ]
        names = _PROFILE_MODELS.get(scenario, ())
        found = [each.get(name) for each in profiles if each.get("enabled", True) for name in names]
        return next((value for value in found if value), None)

    def _convert_target(self, place: str, value: object) -> str:
        """The target for `provider,model`, or `provider/model` of version 3; empty if there is none."""
        text = value if isinstance(value, str) else ""
        provider, separator, model = text.partition("," if "," in text else "/")
        if not separator or not model.strip():
            self.draft.add_note(place, "left out: expected provider,model")
            return ""
        name = self._names.get(provider.strip())
        if name is None:
            self.draft.add_note(place, f"left out: there is no provider {provider.strip()!r}")
            return ""
        return f"{name}/{model.strip()}"

    def _note_other_keys(self) -> None:
        for key, value in self._config.items():
            if key not in _CONVERTED | _APPLICATION and value not in (None, "", [], {}):
                self.draft.add_note(key, _NOT_CONVERTED.get(key, NO_EQUIVALENT))
        application = ", ".join(key for key in self._config if key in _APPLICATION)
        if application:
            self.draft.add_note(application, "settings of the router's own application: not converted")


def _write_targets(targets: list[str]) -> str | list[str]:
    return targets[0] if len(targets) == 1 else targets


def _read_transformers(value: object) -> list[tuple[str, Table]]:
    """The names and options in a list of transformers. Each item is a name, or a name and its options."""
    found: list[tuple[str, Table]] = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, str):
            found.append((item, {}))
        elif isinstance(item, list) and read_texts(item[:1]):
            found.append((item[0], read_table(item[1]) if len(item) > 1 else {}))
    return found
