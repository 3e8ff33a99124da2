"""One entry of LiteLLM's `model_list`: a model name for clients, a provider, and facts about the model."""

from collections.abc import Callable, Mapping

import msgspec

from dragoman.importing.draft import (
    NO_EQUIVALENT,
    ConfigDraft,
    Table,
    find_variable,
    read_host,
    read_number,
    read_table,
)
from dragoman.importing.vendors import (
    LITELLM_VENDORS,
    Vendor,
    build_litellm_provider,
    remove_secrets,
    split_model,
)


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """One converted model entry: provider, model, key, prices."""

    #: In the file.
    place: str
    #: The model name that clients ask for.
    name: str
    vendor: str
    #: The vendor's name of the model.
    model: str
    #: The table of the provider, without its key and models.
    provider: Table
    #: The reference to the key; empty if there is none.
    key: str = ""
    facts: Table = {}


def _read_price(price: object) -> object:
    """Dollars per million tokens, from dollars per token."""
    if isinstance(price, bool) or not isinstance(price, int | float):
        return None
    return round(price * 1_000_000, 6)


def _read_count(value: object) -> object:
    return value if type(value) is int and value > 0 else None


def _read_flag(value: object) -> object:
    return value if isinstance(value, bool) else None


#: LiteLLM's facts about models, and our fact with the same meaning.
FACTS: dict[str, tuple[str, Callable[[object], object]]] = {
    "max_input_tokens": ("context_tokens", _read_count),
    "max_output_tokens": ("max_output_tokens", _read_count),
    "supports_vision": ("images", _read_flag),
    "supports_pdf_input": ("documents", _read_flag),
    "supports_audio_input": ("audio", _read_flag),
    "input_cost_per_token": ("price_input", _read_price),
    "output_cost_per_token": ("price_output", _read_price),
    "cache_read_input_token_cost": ("price_cache_read", _read_price),
    "cache_creation_input_token_cost": ("price_cache_write", _read_price),
}
#: Parameters of a deployment that this module converts, or that have no effect here.
_CONVERTED = frozenset(
    {"model", "api_key", "api_base", "base_url", "custom_llm_provider", "timeout", "stream_timeout"}
    | {"max_retries", "num_retries", "extra_headers", "headers", "organization", "order"}
)
_NO_LIMITS = "providers have no limits; set limits on client keys"
#: Parameters without an equivalent, and what dragoman does instead.
_NOT_CONVERTED = {
    "api_version": "Azure's newer API needs no version",
    "rpm": _NO_LIMITS,
    "tpm": _NO_LIMITS,
    "drop_params": "dragoman always removes parameters that a model does not accept, and reports it",
}
#: The variable that LiteLLM reads if a deployment of this vendor states no address.
_ADDRESS_VARIABLES = {"azure": "AZURE_API_BASE", "azure_ai": "AZURE_AI_API_BASE"}
#: Parts of the names of models that are no chat models. LiteLLM does not require the `mode` of a model.
_OTHER_MODELS = ("embed", "rerank", "whisper", "dall-e")
#: A header with one of these texts in its name contains a secret.
_SECRET_HEADERS = ("auth", "key", "token", "secret", "cookie", "password")


def read_deployment(
    entry: Table, place: str, draft: ConfigDraft, variables: Mapping[str, str]
) -> Deployment | None:
    """Read one entry. Returns None, and notes the reason, if dragoman cannot serve it."""
    name = entry.get("model_name")
    params = read_table(entry.get("litellm_params"))
    model = params.get("model")
    if not isinstance(name, str) or not isinstance(model, str):
        draft.add_note(place, "left out: it names no model")
        return None
    where = f"{place} ({name})"
    info = read_table(entry.get("model_info"))
    if info.get("mode") not in (None, "chat", "completion", "responses"):
        draft.add_note(where, f"left out: dragoman serves chat models, not {info['mode']}")
        return None
    if info.get("mode") is None and any(part in model.lower() for part in _OTHER_MODELS):
        draft.add_note(where, f"left out: dragoman serves chat models, and {model} seems to be none")
        return None
    prefix, model = split_model(model, str(params.get("custom_llm_provider") or ""))
    vendor = LITELLM_VENDORS.get(prefix, Vendor())
    address = _read_address(params, prefix, where, draft, variables)
    is_reachable = address is not None and not vendor.unreachable
    provider = build_litellm_provider(prefix, address or "") if is_reachable else None
    if provider is None:
        draft.add_note(where, f"left out: {vendor.unreachable or 'its address is unknown'}")
        return None
    _add_settings(provider, params, where, draft)
    for key in params:
        if key not in _CONVERTED and key not in FACTS:
            draft.add_note(f"{where}: {key}", _NOT_CONVERTED.get(key, NO_EQUIVALENT))
    # The user's own server must not get the key that OPENAI_API_KEY usually holds.
    owner = read_host(address) if address and vendor.is_any_server else prefix
    variable = vendor.variable or f"{owner}_API_KEY"
    key = draft.build_key(params.get("api_key"), address or "", variable, f"{where}: api_key")
    facts = {**_read_facts(params), **_read_facts(info)}
    return Deployment(
        place=place, name=name, vendor=prefix, model=model, provider=provider, key=key, facts=facts
    )


def _read_address(
    params: Table, prefix: str, where: str, draft: ConfigDraft, variables: Mapping[str, str]
) -> str | None:
    """The address; empty if the deployment states none, None if its variable is not set."""
    address = params.get("api_base") or params.get("base_url") or ""
    if not isinstance(address, str):
        return None
    variable = find_variable(address) if address else _ADDRESS_VARIABLES.get(prefix, "")
    if variable and not variables.get(variable):
        advice = f"{variable} is not set: `export {variable}=https://…`, then import again"
        draft.add_note(f"{where}: api_base", advice)
        return None
    return remove_secrets(variables[variable] if variable else address, f"{where}: api_base", draft)


def _add_settings(provider: Table, params: Table, where: str, draft: ConfigDraft) -> None:
    """Add timeouts, retries and headers to the table of the provider."""
    total, first_byte = read_number(params.get("timeout")), read_number(params.get("stream_timeout"))
    timeouts = {"total": total, "first_byte": first_byte}
    if total or first_byte:
        provider["timeouts"] = {name: value for name, value in timeouts.items() if value is not None}
    retries = params.get("max_retries", params.get("num_retries"))
    if type(retries) is int and 0 <= retries <= 20:
        provider["retries"] = retries
    headers = read_table(params.get("extra_headers") or params.get("headers"))
    if params.get("organization"):
        headers = {**headers, "openai-organization": params["organization"]}
    if headers:
        provider["headers"] = {
            name.lower(): _read_header(name, value, where, draft) for name, value in headers.items()
        }


def _read_header(name: str, value: object, where: str, draft: ConfigDraft) -> str:
    text = str(value)
    if find_variable(text) or any(part in name.lower() for part in _SECRET_HEADERS):
        return draft.build_reference(text, name, f"{where}: header {name}")
    return text


def _read_facts(table: Table) -> Table:
    found = {fact: read(table[key]) for key, (fact, read) in FACTS.items() if key in table}
    return {fact: value for fact, value in found.items() if value is not None}
