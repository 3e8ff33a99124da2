"""dragoman lets any coding agent work with any model, tools included.

As a library it translates between the dialects `anthropic`, `openai_chat`, `openai_responses` and
`gemini`: requests, whole replies and streams, without losing anything in silence.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.governance.settings import Governance as Governance
    from dragoman.hub.errors import DragomanError as DragomanError
    from dragoman.hub.loss import Loss as Loss
    from dragoman.pipeline import StreamTranslator as StreamTranslator
    from dragoman.pipeline import Translation as Translation
    from dragoman.pipeline import translate_error as translate_error
    from dragoman.pipeline import translate_reply as translate_reply
    from dragoman.pipeline import translate_request as translate_request
    from dragoman.providers.profile import Profile as Profile

__version__ = "0.1.0"

#: Where each public name lives. They load when first asked for, so that `dragoman --help` need not wait.
_HOMES = {
    "DragomanError": "dragoman.hub.errors",
    "Governance": "dragoman.governance.settings",
    "Loss": "dragoman.hub.loss",
    "Profile": "dragoman.providers.profile",
    "StreamTranslator": "dragoman.pipeline",
    "Translation": "dragoman.pipeline",
    "translate_error": "dragoman.pipeline",
    "translate_reply": "dragoman.pipeline",
    "translate_request": "dragoman.pipeline",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """The public names, also before they are loaded, for completion in a REPL."""
    return sorted(__all__)
