"""The LiteLLM proxy's `config.yaml`.

Deployments of one name share its load there; here they are tried in order. What is said of deployments is
said of providers here, so that deployments which differ become providers of their own.
"""

from collections.abc import Mapping

from dragoman.importing.deployment import Deployment, read_deployment
from dragoman.importing.draft import Draft, Table, object_of, objects, seconds, texts
from dragoman.importing.yaml_text import read_yaml

#: Settings that need no equivalent, and why.
_LEFT = {
    "litellm_settings.drop_params": "settings that a model does not take are always left out, and told",
    "litellm_settings.modify_params": "requests are always fitted to the model",
    "litellm_settings.set_verbose": "see `log` in [server]",
    "litellm_settings.json_logs": 'log = "json" in [server]',
    "litellm_settings.context_window_fallbacks": "what is too long is told to the client, not sent on",
    "litellm_settings.content_policy_fallbacks": "a refusal is told to the client, not sent on",
    "router_settings.routing_strategy": "targets are tried in order, those that failed of late last",
    "router_settings.cooldown_time": "a target that failed comes last for a while",
    "router_settings.allowed_fails": "a target that failed comes last for a while",
    "general_settings.database_url": "no database server is needed",
    "general_settings.store_model_in_db": "models stand in the file",
}
_TAKEN = {
    "litellm_settings": {"fallbacks", "default_fallbacks", "num_retries", "request_timeout"},
    "router_settings": {"fallbacks", "model_group_alias", "num_retries", "timeout", "default_fallbacks"},
    "general_settings": {"master_key"},
}


def import_litellm(text: str, path: str, variables: Mapping[str, str]) -> Draft:
    """The configuration in `text`; `variables` answer addresses that it takes from the environment."""
    return _Import(read_yaml(text, path), variables).draft


class _Import:
    def __init__(self, config: Table, variables: Mapping[str, str]) -> None:
        self.draft = Draft()
        self._config = config
        self._settings = {name: object_of(config.get(name)) for name in _TAKEN}
        #: Which provider serves what of which deployment.
        self._groups: dict[str, list[str]] = {}
        for number, entry in enumerate(objects(config.get("model_list"))):
            deployment = read_deployment(entry, f"model_list[{number}]", self.draft, variables)
            if deployment is not None:
                self._deploy(deployment)
        self._server()
        self._for_all()
        self._routes()
        self._rest()

    def _deploy(self, deployment: Deployment) -> None:
        name = self._provider(deployment)
        if deployment.facts:
            self.draft.models_of(name, deployment.model).update(deployment.facts)
        if deployment.name.endswith("/*") and deployment.model == "*":
            if deployment.name != f"{name}/*":
                words = f"is asked for as {name}/MODEL here"
                self.draft.note(f"{deployment.place} ({deployment.name})", words)
            return
        if "*" in deployment.model and deployment.model != deployment.name:
            words = "left out: here a pattern cannot change the name that it takes"
            self.draft.note(f"{deployment.place} ({deployment.name})", words)
            return
        model = "*" if "*" in deployment.model else deployment.model
        self._groups.setdefault(deployment.name, []).append(f"{name}/{model}")

    def _provider(self, deployment: Deployment) -> str:
        """The provider of this deployment: one that is like it, perhaps with one more key, or a new one."""
        draft = self.draft
        for name, known in draft.providers.items():
            without = {key: value for key, value in known.items() if key not in ("api_key", "models")}
            # The same model with another key is the same target; other models may not be that key's to use.
            is_same = f"{name}/{deployment.model}" in self._groups.get(deployment.name, ())
            if without == deployment.provider and (is_same or deployment.key in _keys(known)):
                _add_key(known, deployment.key)
                return name
        wanted = str(deployment.provider.get("preset") or deployment.vendor)
        name = draft.name_for(wanted)
        number = 2
        while name in draft.providers:
            name, number = draft.name_for(f"{wanted}-{number}"), number + 1
        draft.providers[name] = table = dict(deployment.provider)
        draft.give_key(table, deployment.key)
        return name

    def _server(self) -> None:
        key = self._settings["general_settings"].get("master_key")
        if isinstance(key, str) and key:
            reference = self.draft.reference(key, "DRAGOMAN_KEY", "general_settings.master_key")
            self.draft.server["keys"] = [reference]

    def _for_all(self) -> None:
        """What the file says once and we say for each provider."""
        general, router = self._settings["litellm_settings"], self._settings["router_settings"]
        retries = router.get("num_retries", general.get("num_retries"))
        total = seconds(router.get("timeout", general.get("request_timeout")))
        for provider in self.draft.providers.values():
            if isinstance(retries, int) and 0 <= retries <= 20:
                provider.setdefault("retries", retries)
            if total is not None:
                provider.setdefault("timeouts", {"total": total})

    def _routes(self) -> None:
        draft = self.draft
        then = self._fallbacks()
        for name, targets in self._groups.items():
            distinct = list(dict.fromkeys(targets))
            if len(distinct) > 1:
                words = f"{len(distinct)} deployments share the load there, and are tried in order here"
                draft.note(f"model_name {name}", words)
            more = [
                target
                for group in then.get(name, then.get("*", []))
                for target in self._groups.get(group, [])
            ]
            draft.routes[name] = list(dict.fromkeys((*distinct, *more)))
        aliases = object_of(self._settings["router_settings"].get("model_group_alias"))
        for alias, meant in aliases.items():
            group = str(object_of(meant).get("model", "")) if isinstance(meant, dict) else str(meant)
            if group in draft.routes:
                draft.routes.setdefault(alias, draft.routes[group])
            else:
                draft.note(f"router_settings.model_group_alias.{alias}", f"left out: there is no {group!r}")

    def _fallbacks(self) -> dict[str, list[str]]:
        """What is tried next, by name; `*` for the others."""
        found: dict[str, list[str]] = {}
        for section in ("litellm_settings", "router_settings"):
            for entry in objects(self._settings[section].get("fallbacks")):
                for name, groups in entry.items():
                    found.setdefault(name, []).extend(texts(groups))
            default = texts(self._settings[section].get("default_fallbacks"))
            if default:
                found.setdefault("*", []).extend(default)
        for name, groups in found.items():
            for group in groups:
                if group not in self._groups:
                    self.draft.note(f"fallbacks of {name}", f"left out: there is no {group!r}")
        return found

    def _rest(self) -> None:
        draft = self.draft
        for section, taken in _TAKEN.items():
            for key in self._settings[section]:
                place = f"{section}.{key}"
                if key not in taken:
                    draft.note(place, _LEFT.get(place, "there is no equivalent"))
        for name in object_of(self._config.get("environment_variables")):
            draft.note(f"environment_variables.{name}", "set it in the environment, if you still need it")
        for key in self._config:
            if key not in {*_TAKEN, "model_list", "environment_variables"}:
                draft.note(key, "there is no equivalent")
        if not draft.providers:
            draft.note("model_list", "nothing in it could be taken over")


def _add_key(provider: Table, key: str) -> None:
    """A provider may have several keys; each session keeps to one of them."""
    keys = [known for known in dict.fromkeys((*_keys(provider), key)) if known]
    if keys:
        provider["api_key"] = keys[0] if len(keys) == 1 else keys


def _keys(provider: Table) -> list[str]:
    """The references to its keys; an empty one if it has none."""
    known = provider.get("api_key", "")
    return texts(known) if isinstance(known, list) else [str(known)]
