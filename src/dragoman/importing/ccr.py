"""claude-code-router's `config.json`.

Its routes choose by what a request is about; ours choose by the model's name. Claude Code names a small model
for work in the background, so that route can be kept; the others are noted.
"""

from collections.abc import Callable

from dragoman.importing.addresses import provider_at, without_secrets
from dragoman.importing.draft import (
    Draft,
    Table,
    governed,
    is_local,
    object_of,
    objects,
    seconds,
    texts,
    variable_in,
)
from dragoman.importing.loose_json import read_object
from dragoman.server.guard import is_loopback

#: Transformers that tell which API is spoken.
_DIALECTS = {"anthropic": "anthropic", "gemini": "gemini", "openai-response": "openai_responses"}
#: Transformers for servers that cannot be called with an address and a key alone.
_UNREACHABLE = {
    "vertex-gemini": "Vertex AI logs in by another way than a key",
    "vertex-claude": "Vertex AI logs in by another way than a key",
    "gemini-cli": "it uses the login of another program",
    "qwen-cli": "it uses the login of another program",
    "rovo-cli": "it uses the login of another program",
}
#: Transformers whose work dragoman does for every model that needs it.
_NEEDLESS = frozenset(
    {
        "openrouter",
        "deepseek",
        "groq",
        "openai",
        "reasoning",
        "sampling",
        "cleancache",
        "streamoptions",
        "forcereasoning",
    }
)

#: Keys of the file that need no equivalent, and why.
_LEFT = {
    "LOG": "dragoman logs one line per exchange to standard error",
    "LOG_LEVEL": "dragoman logs one line per exchange to standard error",
    "NON_INTERACTIVE_MODE": "dragoman asks nothing while it serves",
    "CLAUDE_PATH": "`dragoman run claude` finds the program on PATH",
    "StatusLine": "there is no status line; `dragoman status` tells how it goes",
    "CUSTOM_ROUTER_PATH": "there are no routers of one's own; routes go by the model's name",
    "REWRITE_SYSTEM_PROMPT": "system prompts are not rewritten",
    "transformers": "there are no transformers of one's own",
    "Transformers": "there are no transformers of one's own",
}
_SCENARIOS = {
    "think": "requests that ask for reasoning are not told apart",
    "longContext": "long requests are not told apart",
    "longContextThreshold": "long requests are not told apart",
    "webSearch": "requests with web search are not told apart",
    "image": "requests with pictures are not told apart",
}


def import_ccr(text: str, path: str) -> Draft:
    """The configuration in `text`, which was read from `path`."""
    return _Import(read_object(text, path)).draft


class _Import:
    def __init__(self, config: Table) -> None:
        self.draft = Draft()
        self._config = config
        #: Our names of its providers.
        self._names: dict[str, str] = {}
        self._server()
        for number, provider in enumerate(objects(config.get("Providers") or config.get("providers"))):
            self._provider(f"Providers[{number}]", provider)
        self._routes(object_of(config.get("Router")))
        self._rest()

    def _server(self) -> None:
        config, draft = self._config, self.draft
        key = config.get("APIKEY")
        if isinstance(key, str) and key.strip():
            draft.server["keys"] = [draft.reference(key, "DRAGOMAN_KEY", "APIKEY")]
        host = config.get("HOST")
        if isinstance(host, str) and host and variable_in(host) == "":
            if is_loopback(host) or "keys" in draft.server:
                draft.server["host"] = host
            else:
                draft.note("HOST", "others could reach it without a key, so it listens on this machine only")
        port = seconds(config.get("PORT"))
        if port is not None and port.is_integer() and port <= 65_535:
            draft.server["port"] = int(port)

    def _provider(self, place: str, provider: Table) -> None:
        draft = self.draft
        theirs = str(provider.get("name") or "provider")
        address = provider.get("api_base_url") or provider.get("baseUrl")
        transformer = object_of(provider.get("transformer"))
        used = list(_used(transformer.get("use")))
        for name, _ in used:
            if name.lower() in _UNREACHABLE:
                return draft.note(f"{place} ({theirs})", f"left out: {_UNREACHABLE[name.lower()]}")
        if not isinstance(address, str) or not address.startswith(("http://", "https://")):
            return draft.note(f"{place} ({theirs})", "left out: it has no address that could be taken over")
        address = without_secrets(address, f"{place} ({theirs})", draft)
        name = self._names[theirs] = draft.name_for(theirs)
        dialect = next((_DIALECTS[each.lower()] for each, _ in used if each.lower() in _DIALECTS), "")
        table = draft.providers[name] = provider_at(address, dialect)
        key = draft.key(provider.get("api_key"), address, f"{theirs}_API_KEY", f"{place}.api_key")
        draft.give_key(table, key)
        self._shared(table, address)
        self._transformers(place, name, transformer)
        return None

    def _shared(self, table: Table, address: str) -> None:
        """What the file says once and we say for each provider; nobody needs a proxy to this machine."""
        proxy = self._config.get("PROXY_URL")
        if isinstance(proxy, str) and proxy.strip() and not is_local(address):
            secret = variable_in(proxy) or "@" in proxy
            table["proxy"] = (
                self.draft.reference(proxy, "PROXY_URL", "PROXY_URL") if secret else proxy.strip()
            )
        total = seconds(self._config.get("API_TIMEOUT_MS"), per_second=1_000)
        if total is not None:
            table["timeouts"] = {"total": total}

    def _transformers(self, place: str, name: str, transformer: Table) -> None:
        """The provider's own, for all its models, and those of single models."""
        for scope, value in transformer.items():
            model = "*" if scope == "use" else scope
            where = f"{place}.transformer" if scope == "use" else f"{place}.transformer.{scope}"
            for used, options in _used(value if scope == "use" else object_of(value).get("use")):
                self._transformer(where, name, model, used.lower(), options)

    def _transformer(self, place: str, name: str, model: str, used: str, options: Table) -> None:
        if used in _NEEDLESS or used in _DIALECTS:
            if used == "openrouter" and options:
                self.draft.note(f"{place} ({used})", "its options have no equivalent")
            return
        take = _TAKEN.get(used)
        if take is None:
            self.draft.note(f"{place} ({used})", "there is no such transformer here")
        else:
            take(self.draft, name, model, options)

    def _routes(self, router: Table) -> None:
        draft = self.draft
        background = self._target("Router.background", router.get("background"))
        if background:
            # Claude Code asks for a Haiku model when it works in the background.
            draft.routes["*haiku*"] = [background]
        default = self._target("Router.default", router.get("default"))
        if default:
            draft.routes["*"] = [default]
        else:
            draft.note("Router.default", "there is none that could be taken over; name a route yourself")
        for scenario, why in _SCENARIOS.items():
            if router.get(scenario):
                draft.note(f"Router.{scenario}", f"{why}; agents can ask for the model by its name")
        for scenario in router:
            if scenario not in {*_SCENARIOS, "default", "background"}:
                draft.note(f"Router.{scenario}", "there is no such route here")

    def _target(self, place: str, value: object) -> str:
        provider, comma, model = value.partition(",") if isinstance(value, str) else ("", "", "")
        if not comma:
            return ""
        name = self._names.get(provider.strip())
        if name is None:
            self.draft.note(place, f"left out: there is no provider {provider.strip()!r}")
            return ""
        return f"{name}/{model.strip()}"

    def _rest(self) -> None:
        known = {"APIKEY", "HOST", "PORT", "Providers", "providers", "Router", "PROXY_URL", "API_TIMEOUT_MS"}
        for key, value in self._config.items():
            if key not in known and value not in (None, "", [], {}):
                self.draft.note(key, _LEFT.get(key, "there is no equivalent"))
        if self.draft.providers:
            self.draft.note("/model provider,model", "is asked for as provider/model here")


def _used(value: object) -> list[tuple[str, Table]]:
    """The transformers of a list: each is a name, or a name and its options."""
    found: list[tuple[str, Table]] = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, str):
            found.append((item, {}))
        elif isinstance(item, list) and texts(item[:1]):
            found.append((item[0], object_of(item[1]) if len(item) > 1 else {}))
    return found


def _max_tokens(draft: Draft, name: str, model: str, options: Table) -> None:
    limit = options.get("max_tokens")
    if isinstance(limit, int) and limit > 0:
        draft.models_of(name, model)["max_output_tokens"] = limit


def _forced(draft: Draft, name: str, model: str, options: Table) -> None:
    _govern(draft, name, model, {"choice": "required"})


def _mended(draft: Draft, name: str, model: str, options: Table) -> None:
    _govern(draft, name, model, {"tools": "hold"})


def _govern(draft: Draft, name: str, model: str, wishes: Table) -> None:
    governed(draft.providers[name] if model == "*" else draft.models_of(name, model), wishes)


_TAKEN: dict[str, Callable[[Draft, str, str, Table], None]] = {
    "maxtoken": _max_tokens,
    "maxcompletiontokens": lambda draft, name, model, options: draft.models_of(name, model).update(
        max_tokens_field="max_completion_tokens"
    ),
    "tooluse": _forced,
    "enhancetool": _mended,
}
