"""Maps the vendors, endpoints and transformers of other gateways to dragoman's presets and dialects.

This is the only module of the package that names dialects.
"""

from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import msgspec

from dragoman.importing.draft import ConfigDraft, Table
from dragoman.providers.presets import load_presets

CHAT = "openai_chat"

#: The end of an address that other gateways write in full, and the dialect of that endpoint.
_ENDPOINTS: tuple[tuple[str, str], ...] = (
    ("/chat/completions", CHAT),
    ("/responses", "openai_responses"),
    ("/v1/messages", "anthropic"),
    ("/v1beta/models", "gemini"),
    ("/v1beta", "gemini"),
)
#: Transformers of claude-code-router that name the API of a provider.
CCR_DIALECTS = {"anthropic": "anthropic", "gemini": "gemini", "openai-response": "openai_responses"}

_OTHER_LOGIN = "it does not log in with an API key"
_PROGRAM_LOGIN = "it uses the login of another program"
_SIGNED = "it signs its requests"

#: Transformers of claude-code-router for servers that need more than an address and a key.
CCR_UNREACHABLE = {
    "vertex-gemini": _OTHER_LOGIN,
    "vertex-claude": _OTHER_LOGIN,
    "gemini-cli": _PROGRAM_LOGIN,
    "qwen-cli": _PROGRAM_LOGIN,
    "rovo-cli": _PROGRAM_LOGIN,
}


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a prefix of LiteLLM's model names.

    A vendor is one of our presets, or a Chat API at `base_url`, or `unreachable` for the reason given.
    `is_any_server`: with an address of its own, the prefix means any server with a Chat API.
    """

    preset: str = ""
    base_url: str = ""
    variable: str = ""
    unreachable: str = ""
    is_any_server: bool = False


#: By prefix. Prefixes that are equal to the name of our preset stand in one row.
LITELLM_VENDORS: dict[str, Vendor] = {
    **{
        name: Vendor(preset=name)
        for name in ("anthropic", "gemini", "openrouter", "deepseek", "groq", "mistral", "moonshot", "xai")
    },
    "openai": Vendor(preset="openai", is_any_server=True),
    "text-completion-openai": Vendor(preset="openai"),
    "dashscope": Vendor(preset="qwen"),
    "ollama": Vendor(preset="ollama"),
    "ollama_chat": Vendor(preset="ollama"),
    "lm_studio": Vendor(preset="lmstudio", is_any_server=True),
    "hosted_vllm": Vendor(preset="vllm", is_any_server=True),
    "llamafile": Vendor(preset="llamacpp", is_any_server=True),
    "zai": Vendor(base_url="https://api.z.ai/api/paas/v4", variable="ZAI_API_KEY"),
    "together_ai": Vendor(base_url="https://api.together.xyz/v1", variable="TOGETHERAI_API_KEY"),
    "fireworks_ai": Vendor(base_url="https://api.fireworks.ai/inference/v1", variable="FIREWORKS_API_KEY"),
    "cerebras": Vendor(base_url="https://api.cerebras.ai/v1", variable="CEREBRAS_API_KEY"),
    "perplexity": Vendor(base_url="https://api.perplexity.ai", variable="PERPLEXITYAI_API_KEY"),
    "deepinfra": Vendor(base_url="https://api.deepinfra.com/v1/openai", variable="DEEPINFRA_API_KEY"),
    "nvidia_nim": Vendor(base_url="https://integrate.api.nvidia.com/v1", variable="NVIDIA_NIM_API_KEY"),
    "sambanova": Vendor(base_url="https://api.sambanova.ai/v1", variable="SAMBANOVA_API_KEY"),
    "novita": Vendor(base_url="https://api.novita.ai/v3/openai", variable="NOVITA_API_KEY"),
    "minimax": Vendor(base_url="https://api.minimax.io/v1", variable="MINIMAX_API_KEY"),
    **dict.fromkeys(("azure", "azure_ai", "custom_openai", "openai_like"), Vendor()),
    **dict.fromkeys(("bedrock", "bedrock_converse", "sagemaker"), Vendor(unreachable=_SIGNED)),
    **dict.fromkeys(("vertex_ai", "vertex_ai_beta", "watsonx"), Vendor(unreachable=_OTHER_LOGIN)),
    **dict.fromkeys(("github_copilot", "chatgpt"), Vendor(unreachable=_PROGRAM_LOGIN)),
}
#: The vendor of a model name without a prefix, by the start of the name.
_MODEL_NAMES = {
    **dict.fromkeys(("gpt-", "o1", "o3", "o4", "chatgpt-"), "openai"),
    "claude-": "anthropic",
}


def split_model(model: str, stated: str = "") -> tuple[str, str]:
    """The vendor's prefix and its model name. `stated` is LiteLLM's `custom_llm_provider`.

    The prefix is empty if the vendor is unknown.
    """
    if stated:
        return stated, model.removeprefix(f"{stated}/")
    prefix, slash, rest = model.partition("/")
    if slash and prefix in LITELLM_VENDORS:
        return prefix, rest.removeprefix("responses/") if prefix == "openai" else rest
    for start, vendor in _MODEL_NAMES.items():
        if model.startswith(start):
            return vendor, model
    return ("openai", "*") if model == "*" else ("", model)


def build_litellm_provider(prefix: str, address: str) -> Table | None:
    """The provider table of a LiteLLM deployment; None if its address is unknown.

    `address` is the deployment's `api_base`; empty means the vendor's usual address.
    """
    vendor = LITELLM_VENDORS.get(prefix, Vendor())
    base = address.rstrip("/").removesuffix("/chat/completions")
    if prefix in ("azure", "azure_ai"):
        # Azure's newer API needs no version and takes the name of the deployment as the model.
        return {"dialect": CHAT, "base_url": f"{base.partition('/openai')[0]}/openai/v1"} if base else None
    if not base:
        if vendor.preset:
            return {"preset": vendor.preset}
        return {"dialect": CHAT, "base_url": vendor.base_url} if vendor.base_url else None
    if vendor.preset == "ollama":
        return {"preset": "ollama", "base_url": base if base.endswith("/v1") else f"{base}/v1"}
    if vendor.preset and not vendor.is_any_server:
        return {"preset": vendor.preset, "base_url": base}
    return {"dialect": CHAT, "base_url": base}


def build_provider(address: str, dialect: str = "") -> Table:
    """The provider table for the address of an endpoint: a preset, or a dialect and `base_url`.

    Without `dialect`, the end of the address decides.
    """
    base = address.strip().rstrip("/")
    endpoint = next((each for each in _ENDPOINTS if base.endswith(each[0])), ("", ""))
    base = base.removesuffix(endpoint[0])
    dialect = dialect or endpoint[1] or CHAT
    for name, preset in load_presets().items():
        if preset.base_url and preset.dialect == dialect and _normalize(preset.base_url) == _normalize(base):
            return {"preset": name}
    return {"dialect": dialect, "base_url": base}


def remove_secrets(address: str, place: str, draft: ConfigDraft) -> str:
    """The address without user name and query: they may contain keys, and dragoman does not send them."""
    # The check of the whole configuration reports a text that is not an address.
    with suppress(ValueError):
        parts = urlsplit(address.strip())
        host = parts.netloc.rpartition("@")[2]
        if host != parts.netloc or parts.query or parts.fragment:
            draft.add_note(place, "user name and query of the address are removed; set keys in api_key")
            return urlunsplit((parts.scheme, host, parts.path, "", ""))
    return address


def _normalize(address: str) -> str:
    """The address in a form that is equal for all spellings of it."""
    return address.rstrip("/").removesuffix("/v1").replace("//localhost", "//127.0.0.1").lower()
