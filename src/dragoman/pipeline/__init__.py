"""The library: requests and replies from any dialect into any other.

`translate_request` for what goes to a model, `translate_reply` and `StreamTranslator` for what comes back.
Nothing here waits, keeps time or opens anything.
"""

from dragoman.pipeline.replies import StreamTranslator, translate_error, translate_reply
from dragoman.pipeline.requests import Translation, translate_request

__all__ = ["StreamTranslator", "Translation", "translate_error", "translate_reply", "translate_request"]
