"""Where each dialect's endpoints are, and how each wants its key."""

import re

from dragoman.config.model import Provider
from dragoman.upstream.port import Call

_VERSIONED = re.compile(r"/v\d+[a-z]*\d*(/openai)?$")

#: The version segment of each dialect, and the path of a turn below it.
PATHS: dict[str, tuple[str, str]] = {
    "anthropic": ("v1", "messages"),
    "openai_chat": ("v1", "chat/completions"),
    "openai_responses": ("v1", "responses"),
}


def address(provider: Provider, call: Call) -> str:
    """The URL of a call; the configured address may end in the version segment or not."""
    base = provider.base_url
    dialect = provider.wire_dialect
    if dialect == "gemini":
        verb = call.endpoint or ("streamGenerateContent?alt=sse" if call.stream else "generateContent")
        root = base if _VERSIONED.search(base) else f"{base}/v1beta"
        model = call.model if "/" in call.model else f"models/{call.model}"
        return f"{root}/{model}:{verb}"
    version, path = PATHS[dialect]
    root = base if _VERSIONED.search(base) else f"{base}/{version}"
    return f"{root}/{path}{call.endpoint}"


def key_headers(dialect: str, key: str) -> dict[str, str]:
    """The header that carries a key. Anthropic's OAuth tokens are bearers, its keys are not."""
    if not key:
        return {}
    if dialect == "gemini":
        return {"x-goog-api-key": key}
    if dialect == "anthropic" and not key.startswith("sk-ant-oat"):
        return {"x-api-key": key}
    return {"authorization": f"Bearer {key}"}
