"""Where each dialect's endpoints are, and how each wants its key."""

import re
from urllib.parse import quote, urlsplit

from dragoman.config.model import Provider
from dragoman.hub.errors import ClientProtocolError
from dragoman.upstream.port import UpstreamRequest

_VERSIONED = re.compile(r"/v\d+[a-z]*\d*(/openai)?$")

#: The version segment of each dialect, and the path of a turn below it.
PATHS: dict[str, tuple[str, str]] = {
    "anthropic": ("v1", "messages"),
    "openai_chat": ("v1", "chat/completions"),
    "openai_responses": ("v1", "responses"),
}


def target_of(provider: Provider, call: UpstreamRequest) -> str:
    """The path and query of a call; the configured address may end in the version segment or not."""
    base = urlsplit(provider.base_url)
    root = base.path.rstrip("/")
    dialect = provider.wire_dialect
    query = base.query
    if dialect == "gemini":
        root = root if _VERSIONED.search(root) else f"{root}/v1beta"
        path = f"{root}/{_model_path(call.model)}:{_verb(call)}"
        if call.stream and not call.endpoint:
            query = f"{query}&alt=sse" if query else "alt=sse"
    else:
        version, turn = PATHS[dialect]
        root = root if _VERSIONED.search(root) else f"{root}/{version}"
        path = f"{root}/{turn}{call.endpoint}"
    return f"{path}?{query}" if query else path


def _verb(call: UpstreamRequest) -> str:
    return call.endpoint or ("streamGenerateContent" if call.stream else "generateContent")


def _model_path(model: str) -> str:
    """A model's name as part of an address, from which it cannot escape."""
    segments = (model if "/" in model else f"models/{model}").split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise ClientProtocolError("expected a model's name, got a path", path="model")
    return "/".join(quote(segment, safe="@") for segment in segments)


def key_headers(dialect: str, key: str) -> dict[str, str]:
    """The header that carries a key. Anthropic's OAuth tokens are bearers, its keys are not."""
    if not key:
        return {}
    if dialect == "gemini":
        return {"x-goog-api-key": key}
    if dialect == "anthropic" and not key.startswith("sk-ant-oat"):
        return {"x-api-key": key}
    return {"authorization": f"Bearer {key}"}
