"""The prefixes of LiteLLM's model names, and whom they mean."""

from dragoman.importing.draft import Table

#: Prefixes that mean one of our presets.
PRESETS = {
    "openai": "openai",
    "text-completion-openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "openrouter": "openrouter",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "dashscope": "qwen",
    "xai": "xai",
    "ollama": "ollama",
    "ollama_chat": "ollama",
    "lm_studio": "lmstudio",
    "hosted_vllm": "vllm",
    "llamafile": "llamacpp",
}
#: Prefixes of vendors that speak Chat, their addresses, and the variables that usually hold their keys.
ADDRESSES = {
    "zai": ("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    "together_ai": ("https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    "fireworks_ai": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "cerebras": ("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "perplexity": ("https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
    "deepinfra": ("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "nvidia_nim": ("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "sambanova": ("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    "novita": ("https://api.novita.ai/v3/openai", "NOVITA_API_KEY"),
    "minimax": ("https://api.minimax.io/v1", "MINIMAX_API_KEY"),
}
#: Prefixes that cannot be called with an address and a key alone.
UNREACHABLE = {
    "bedrock": "Amazon Bedrock signs its requests",
    "bedrock_converse": "Amazon Bedrock signs its requests",
    "sagemaker": "Amazon SageMaker signs its requests",
    "vertex_ai": "Vertex AI logs in by another way than a key",
    "vertex_ai_beta": "Vertex AI logs in by another way than a key",
    "watsonx": "watsonx logs in by another way than a key",
    "github_copilot": "it uses the login of another program",
    "chatgpt": "it uses the login of another program",
}
#: What a name without a prefix means.
_BARE = (("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"), ("chatgpt-", "openai"))
_BARE_CLAUDE = ("claude-", "anthropic")

_KNOWN = frozenset({*PRESETS, *ADDRESSES, *UNREACHABLE, "azure", "azure_ai", "custom_openai", "openai_like"})
_COMPATIBLE = frozenset({"openai", "custom_openai", "openai_like", "hosted_vllm", "lm_studio", "llamafile"})


def split(model: str, stated: str = "") -> tuple[str, str]:
    """The vendor and its own name of the model; the vendor is empty if nobody knows it."""
    if stated:
        return stated, model.removeprefix(f"{stated}/")
    prefix, slash, rest = model.partition("/")
    if slash and prefix in _KNOWN:
        return prefix, rest.removeprefix("responses/") if prefix == "openai" else rest
    for start, vendor in (*_BARE, _BARE_CLAUDE):
        if model.startswith(start):
            return vendor, model
    return ("openai", "*") if model == "*" else ("", model)


def usual_variable(vendor: str) -> str:
    """Where a key usually is, for vendors without a preset."""
    return ADDRESSES[vendor][1] if vendor in ADDRESSES else f"{vendor}_API_KEY"


def provider_of(vendor: str, address: str) -> Table | None:
    """Whom a vendor's name and address mean; None if that cannot be said."""
    base = address.rstrip("/").removesuffix("/chat/completions")
    if vendor in ("azure", "azure_ai"):
        return _azure(base)
    if not base:
        if vendor in PRESETS:
            return {"preset": PRESETS[vendor]}
        return {"dialect": "openai_chat", "base_url": ADDRESSES[vendor][0]} if vendor in ADDRESSES else None
    if PRESETS.get(vendor) == "ollama":
        return {"preset": "ollama", "base_url": base if base.endswith("/v1") else f"{base}/v1"}
    if vendor in PRESETS and vendor not in _COMPATIBLE:
        return {"preset": PRESETS[vendor], "base_url": base}
    return {"dialect": "openai_chat", "base_url": base}


def _azure(base: str) -> Table | None:
    """Azure's newer API, which needs no version and takes the deployment's name for the model's."""
    if not base:
        return None
    root = base.partition("/openai")[0]
    return {"dialect": "openai_chat", "base_url": f"{root}/openai/v1"}
