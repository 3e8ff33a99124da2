"""dragoman lets any coding agent work with any model, tools included.

As a library it translates between the dialects `anthropic`, `openai_chat`, `openai_responses` and
`gemini`: requests, whole replies and streams, without losing anything in silence.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.hub.errors import DragomanError as DragomanError
    from dragoman.hub.loss import Loss as Loss
    from dragoman.policy.settings import Governance as Governance
    from dragoman.providers.profile import Profile as Profile
    from dragoman.translate import StreamTranslator as StreamTranslator
    from dragoman.translate import Translation as Translation
    from dragoman.translate import translate_error as translate_error
    from dragoman.translate import translate_reply as translate_reply
    from dragoman.translate import translate_request as translate_request

__version__ = "0.1.0"

#: Where each public name lives. They load when first asked for, so that `dragoman --help` need not wait.
_HOMES = {
    "DragomanError": "dragoman.hub.errors",
    "Governance": "dragoman.policy.settings",
    "Loss": "dragoman.hub.loss",
    "Profile": "dragoman.providers.profile",
    "StreamTranslator": "dragoman.translate",
    "Translation": "dragoman.translate",
    "translate_error": "dragoman.translate",
    "translate_reply": "dragoman.translate",
    "translate_request": "dragoman.translate",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> object:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}") from None
    return getattr(import_module(home), name)
