"""From an endpoint's address to a provider as dragoman knows it: a preset, or a dialect and an address."""

from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

from dragoman.config.load import presets
from dragoman.importing.draft import Draft

#: What other gateways append to the address of an API, and the dialect that it tells.
_ENDPOINTS: tuple[tuple[str, str], ...] = (
    ("/chat/completions", "openai_chat"),
    ("/responses", "openai_responses"),
    ("/v1/messages", "anthropic"),
    ("/v1beta/models", "gemini"),
    ("/v1beta", "gemini"),
)


def provider_at(address: str, dialect: str = "") -> dict[str, object]:
    """`preset`, or `dialect` and `base_url`. The dialect is that of the endpoint unless one is named."""
    base = address.strip().rstrip("/")
    told = ""
    for endpoint, speaks in _ENDPOINTS:
        if base.endswith(endpoint):
            base, told = base.removesuffix(endpoint), speaks
            break
    dialect = dialect or told or "openai_chat"
    for name, preset in presets().items():
        if preset.base_url and preset.dialect == dialect and _bare(preset.base_url) == _bare(base):
            return {"preset": name}
    return {"dialect": dialect, "base_url": base}


def without_secrets(address: str, place: str, draft: Draft) -> str:
    """The address without a user name and a query: keys hide there, and requests could not repeat them."""
    # What is no address at all is told when the whole configuration is checked.
    with suppress(ValueError):
        parts = urlsplit(address.strip())
        host = parts.netloc.rpartition("@")[2]
        if host != parts.netloc or parts.query or parts.fragment:
            draft.note(place, "its address is taken over without user name and query; keys belong in api_key")
            return urlunsplit((parts.scheme, host, parts.path, "", ""))
    return address


def _bare(address: str) -> str:
    """Without what may be left out or said in two ways."""
    return address.rstrip("/").removesuffix("/v1").replace("//localhost", "//127.0.0.1").lower()
