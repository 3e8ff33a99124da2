"""One entry of LiteLLM's model list: who is called, for what, and what is said about it."""

from collections.abc import Callable, Mapping

import msgspec

from dragoman.importing.addresses import without_secrets
from dragoman.importing.draft import Draft, Table, object_of, seconds, variable_in
from dragoman.importing.vendors import UNREACHABLE, provider_of, split, usual_variable


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    #: What clients ask for.
    name: str
    vendor: str
    #: The vendor's name of the model.
    model: str
    #: The provider's table, but for its key and models.
    provider: Table
    key: str = ""
    facts: Table = {}


def _million(price: object) -> object:
    """Dollars for a million tokens, from dollars for one."""
    return (
        round(price * 1_000_000, 6)
        if isinstance(price, int | float) and not isinstance(price, bool)
        else None
    )


def _count(value: object) -> object:
    return value if type(value) is int and value > 0 else None


def _flag(value: object) -> object:
    return value if isinstance(value, bool) else None


#: What LiteLLM says about models, and the fact that says the same here.
FACTS: dict[str, tuple[str, Callable[[object], object]]] = {
    "max_input_tokens": ("context_tokens", _count),
    "max_output_tokens": ("max_output_tokens", _count),
    "supports_vision": ("images", _flag),
    "supports_pdf_input": ("documents", _flag),
    "supports_audio_input": ("audio", _flag),
    "input_cost_per_token": ("price_input", _million),
    "output_cost_per_token": ("price_output", _million),
    "cache_read_input_token_cost": ("price_cache_read", _million),
    "cache_creation_input_token_cost": ("price_cache_write", _million),
}
#: Parameters of a deployment that are taken over elsewhere in this module, or mean nothing here.
_KNOWN = frozenset(
    {"model", "api_key", "api_base", "base_url", "custom_llm_provider", "timeout", "stream_timeout"}
    | {"max_retries", "num_retries", "extra_headers", "headers", "organization", "order"}
)
_LEFT = {
    "api_version": "Azure's newer API needs none",
    "rpm": "providers have no limits of their own; clients' keys have",
    "tpm": "providers have no limits of their own; clients' keys have",
    "drop_params": "settings that a model does not take are always left out, and told",
}
_NOT_HERE = "there is no equivalent"
#: Headers whose values are secrets, by a part of their names.
_SECRET_HEADERS = ("auth", "key", "token", "secret", "cookie", "password")


def read_deployment(
    entry: Table, place: str, draft: Draft, variables: Mapping[str, str]
) -> Deployment | None:
    """The deployment, or a note on why it cannot be taken over."""
    name = entry.get("model_name")
    params = object_of(entry.get("litellm_params"))
    model = params.get("model")
    if not isinstance(name, str) or not isinstance(model, str):
        draft.note(place, "left out: it names no model")
        return None
    where = f"{place} ({name})"
    info = object_of(entry.get("model_info"))
    if info.get("mode") not in (None, "chat", "completion", "responses"):
        draft.note(where, f"left out: dragoman serves conversations, not {info['mode']}")
        return None
    vendor, model = split(model, str(params.get("custom_llm_provider") or ""))
    address = _address(params, where, draft, variables)
    provider = provider_of(vendor, address) if address is not None and vendor not in UNREACHABLE else None
    if provider is None:
        draft.note(where, f"left out: {UNREACHABLE.get(vendor, 'who would be called is not known')}")
        return None
    _settings(provider, params, where, draft)
    _note_rest(params, where, draft)
    key = draft.key(params.get("api_key"), address or "", usual_variable(vendor), f"{where}: api_key")
    facts = {**_facts(params), **_facts(info)}
    return Deployment(
        place=place, name=name, vendor=vendor, model=model, provider=provider, key=key, facts=facts
    )


def _address(params: Table, where: str, draft: Draft, variables: Mapping[str, str]) -> str | None:
    """The address, looked up if the environment holds it; empty if it is the usual one, None if not known."""
    address = params.get("api_base") or params.get("base_url") or ""
    if not isinstance(address, str):
        return None
    variable = variable_in(address)
    if variable and not variables.get(variable):
        draft.note(f"{where}: api_base", f"the variable {variable} is not set, so the address is not known")
        return None
    return without_secrets(variables[variable] if variable else address, f"{where}: api_base", draft)


def _settings(provider: Table, params: Table, where: str, draft: Draft) -> None:
    timeouts = {"total": seconds(params.get("timeout")), "first_byte": seconds(params.get("stream_timeout"))}
    told = {name: value for name, value in timeouts.items() if value is not None}
    if told:
        provider["timeouts"] = told
    retries = params.get("max_retries", params.get("num_retries"))
    if type(retries) is int and 0 <= retries <= 20:
        provider["retries"] = retries
    headers = object_of(params.get("extra_headers") or params.get("headers"))
    if params.get("organization"):
        headers = {**headers, "openai-organization": params["organization"]}
    given = {name.lower(): _header(name, value, where, draft) for name, value in headers.items()}
    if given:
        provider["headers"] = given


def _header(name: str, value: object, where: str, draft: Draft) -> str:
    text = str(value)
    if variable_in(text) or any(part in name.lower() for part in _SECRET_HEADERS):
        return draft.reference(text, name, f"{where}: header {name}")
    return text


def _facts(stated: Table) -> Table:
    found = {fact: take(stated[key]) for key, (fact, take) in FACTS.items() if key in stated}
    return {fact: value for fact, value in found.items() if value is not None}


def _note_rest(params: Table, where: str, draft: Draft) -> None:
    for key in params:
        if key not in _KNOWN and key not in FACTS:
            draft.note(f"{where}: {key}", _LEFT.get(key, _NOT_HERE))
