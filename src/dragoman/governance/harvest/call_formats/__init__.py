"""The formats of all families, one module per mechanism. Each module lists its families in `FORMATS`.

- `json_in_tags`: JSON objects or lists between tags or behind a token (Hermes, Qwen, Granite, Jamba, Command
  …).
- `tagged_parameters`: parameters in tags with raw values (Qwen3 Coder, GLM, MiniMax, DeepSeek V3.2 …).
- `python_calls`: `name(key="text")` (Llama 4, LFM2, Olmo 3).
- `token_sections`: sections of calls between special tokens (DeepSeek V3, Kimi K2, Step-3).
- `channels`: whole replies as messages with headers (gpt-oss, Kimi K3).
- `bare_calls`: calls without a marker (Llama 3, xLAM).
- `vendor_tokens`: syntax that one vendor alone uses (Mistral, Gemma, MiniMax M3), and families that only
  think.
"""

from functools import cache
from importlib import import_module

from dragoman.governance.harvest.format import FamilyFormat

#: In place of a family's name: what is safe to accept from any model.
AUTO = "auto"

#: In this order: where families share a marker and its reader, a report names the first.
_MODULES = (
    "json_in_tags",
    "tagged_parameters",
    "python_calls",
    "token_sections",
    "channels",
    "bare_calls",
    "vendor_tokens",
)


@cache
def families() -> dict[str, FamilyFormat]:
    """Every format by its family's name. The modules load at the first call: most gateways never harvest."""
    modules = [import_module(f"{__name__}.{module}") for module in _MODULES]
    return {each.name: each for module in modules for each in module.FORMATS}
