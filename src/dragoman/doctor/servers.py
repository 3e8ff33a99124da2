"""Model servers: which ones run on this machine, which models they have, and what they report about them."""

import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from urllib.parse import urlsplit

import msgspec

from dragoman.config.provider import Provider
from dragoman.config.settings import is_loopback
from dragoman.dialects.registry import dialect_named
from dragoman.doctor.findings import Facts, Finding
from dragoman.doctor.server_kinds import KINDS, WORKERS, Body, Fetch, ServerKind, ServerModel
from dragoman.providers.presets import load_presets
from dragoman.upstream.http.upstream import build_root

#: The instructions and tools of an agent have 8,000 to 25,000 tokens: a smaller window holds no conversation.
AGENT_CONTEXT = 32_768
#: The name of the finding about the context window.
WINDOW = "context window"
#: Seconds for each answer of a server on this machine, and of one elsewhere.
LOCAL_TIMEOUT = 1.5
REMOTE_TIMEOUT = 8.0
#: Seconds for Ollama to create a model.
CREATE_TIMEOUT = 60.0
MAX_BODY = 8 * 1024 * 1024
MAX_MODELS = 500


class ModelServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answered: its kind, which is the name of a preset, its address and its models."""

    kind: str
    title: str
    #: As the key `base_url` of the configuration has it.
    base_url: str
    models: tuple[ServerModel, ...] = ()

    def find_model(self, name: str) -> ServerModel | None:
        return next((model for model in self.models if model.name == name), None)


def find_servers(environment: Mapping[str, str]) -> list[ModelServer]:
    """The servers that answer on this machine, at the addresses of the presets and of OLLAMA_HOST."""
    addresses = dict.fromkeys(_read_host(environment.get("OLLAMA_HOST", "")))
    presets = load_presets()
    addresses |= dict.fromkeys(presets[kind.preset].base_url for kind in KINDS)
    with ThreadPoolExecutor(WORKERS) as pool:
        return [server for server in pool.map(find_server, addresses) if server is not None]


def find_server(address: str) -> ModelServer | None:
    """The server at this address, with or without `/v1`; None if none answers."""
    root = address.rstrip("/").removesuffix("/v1")
    fetch = _build_fetch(root)
    for kind in KINDS:
        models = kind.read(fetch)
        if models is not None:
            title = (
                kind.title
                if kind != KINDS[-1] or _is_usual(kind.preset, root)
                else "OpenAI-compatible server"
            )
            return ModelServer(
                kind=kind.preset, title=title, base_url=f"{root}/v1", models=tuple(models[:MAX_MODELS])
            )
    return None


def find_server_model(provider: Provider, model: str) -> ServerModel | None:
    """What a provider on this machine reports about one of its models; None if it reports nothing."""
    if not is_loopback(urlsplit(provider.base_url).hostname or ""):
        return None
    server = find_server(provider.base_url)
    return server.find_model(model) or server.find_model(f"{model}:latest") if server else None


def check_window(provider: Provider, model: str) -> Finding | None:
    """Compare the window that the server has allocated with the stated one, and with what agents need."""
    found = find_server_model(provider, model)
    if found is None or not found.context:
        return None
    stated = provider.find_fact("context_tokens", model)
    kind = find_kind(provider.preset)
    advice = kind.advice.format(tokens=AGENT_CONTEXT) if kind else ""
    detail = f"{found.context:,} tokens"
    if isinstance(stated, int) and stated > found.context:
        detail = f"the server has {detail}, the configuration states {stated:,}"
        return Finding(name=WINDOW, state="fails", detail=detail, advice=advice)
    facts: Facts = {} if stated == found.context else {"context_tokens": found.context}
    if found.context < AGENT_CONTEXT:
        detail += ", too few for the instructions of most agents and a conversation"
        return Finding(name=WINDOW, state="lacks", detail=detail, advice=advice, facts=facts)
    return Finding(name=WINDOW, state="works", detail=detail, facts=facts)


def find_kind(preset: str) -> ServerKind | None:
    """The kind of server that a preset describes; None for a vendor's preset."""
    return next((kind for kind in KINDS if kind.preset == preset), None)


class VendorModel(msgspec.Struct):
    """An entry of a vendor's model list: OpenAI and Anthropic have an `id`, Google has a resource name."""

    id: str = ""
    name: str = ""


class VendorList(msgspec.Struct):
    data: list[VendorModel] = []
    models: list[VendorModel] = []


def list_vendor_models(provider: Provider) -> list[str]:
    """The names of a vendor's models, from its API; empty if it does not answer."""
    http_api = dialect_named(provider.wire_dialect).http_api
    key = next((key.reveal() for key in provider.keys if key), "")
    headers = {**http_api.default_headers, **(http_api.build_key_header(key) if key else {})}
    headers |= {name: value.reveal() for name, value in provider.headers.items()}
    root = build_root(provider.base_url, http_api.version)
    found = fetch_json(f"{root}/models", VendorList, headers=headers)
    entries = [*found.data, *found.models] if found else []
    return [entry.id or entry.name.removeprefix("models/") for entry in entries[:MAX_MODELS]]


def read_provider_models(provider: Provider) -> dict[str, int]:
    """The models that a provider reports, with the context windows in use; 0: unknown.

    Empty without an answer.
    """
    if is_loopback(urlsplit(provider.base_url).hostname or ""):
        server = find_server(provider.base_url)
        if server is not None:
            return {model.name: model.context for model in server.models}
    return dict.fromkeys(list_vendor_models(provider), 0)


def create_ollama_model(base_url: str, model: str, tokens: int) -> str:
    """Create a model of Ollama with this context window, which shares the files of `model`. Returns its name.

    The API that OpenAI's clients use has no field for the window, so it must be a property of the model.
    Returns an empty text if Ollama refuses.
    """
    name = f"{model}-{tokens // 1024}k"
    body = {"model": name, "from": model, "parameters": {"num_ctx": tokens}, "stream": False}
    fetch = _build_fetch(base_url.removesuffix("/v1"), timeout=CREATE_TIMEOUT)
    return name if fetch("/api/create", dict[str, object], body) is not None else ""


def fetch_json(
    url: str,
    kind: type[Body],
    body: object = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 0.0,
) -> Body | None:
    """The JSON answer of a server; None if there is none, or if it has another form."""
    is_local = is_loopback(urlsplit(url).hostname or "")
    # A proxy of the environment cannot reach servers on this machine.
    openers: list[urllib.request.BaseHandler] = [_RefusedRedirects()]
    openers += [urllib.request.ProxyHandler({})] if is_local else []
    data = None if body is None else msgspec.json.encode(body)
    try:
        request = urllib.request.Request(  # noqa: S310 (only http)
            url, data, {"content-type": "application/json", **(headers or {})}
        )
        limit = timeout or (LOCAL_TIMEOUT if is_local else REMOTE_TIMEOUT)
        with urllib.request.build_opener(*openers).open(request, timeout=limit) as response:
            return msgspec.json.decode(response.read(MAX_BODY), type=kind)
    except (OSError, HTTPException, ValueError, msgspec.MsgspecError, RecursionError):
        return None


class _RefusedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send the key to another server."""

    def redirect_request(self, *arguments: object, **named: object) -> None:
        return None


def _build_fetch(root: str, timeout: float = 0.0) -> Fetch:
    def fetch(path: str, kind: type[Body], body: object = None) -> Body | None:
        return fetch_json(f"{root}{path}", kind, body, timeout=timeout)

    return fetch


def _is_usual(preset: str, root: str) -> bool:
    return load_presets()[preset].base_url.removesuffix("/v1") == root


def _read_host(host: str) -> list[str]:
    """The address in OLLAMA_HOST, which may lack the scheme or the port. `0.0.0.0` is for servers only."""
    if not host:
        return []
    usual = urlsplit(load_presets()["ollama"].base_url)
    parts = urlsplit(host if "://" in host else f"http://{host}")
    try:
        port = parts.port or usual.port
    except ValueError:
        return []
    name = "127.0.0.1" if parts.hostname in (None, "0.0.0.0") else parts.hostname  # noqa: S104 (compared)
    return [f"{parts.scheme}://{name}:{port}/v1"]
