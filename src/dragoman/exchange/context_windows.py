"""Finds the targets whose context window can hold a request, before anything is sent.

A request that clearly exceeds the window of every target is refused at once, with the error that makes agents
shorten their conversation: the vendor would refuse it too, after the upload and perhaps for money.
"""

import sys
from collections.abc import Sequence

from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.dialects.registry import dialect_named
from dragoman.fit.vendor_fields import may_be_shortened
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure
from dragoman.hub.request import Request
from dragoman.pipeline.plan import RequestPlan
from dragoman.tokens.lower_bound import find_lower_bound
from dragoman.tokens.request import estimate_tokens
from dragoman.tokens.tokenizers import find_tokenizer

#: The lower bound is less than one token for so many bytes. Only a larger body is read and counted.
BYTES_PER_TOKEN = 2


def find_certain_size(config: Config, targets: Sequence[TargetName]) -> int:
    """The bytes of a body that the window of every target holds, whichever client sends it.

    It depends on the configuration alone. Only for a larger body `may_overflow` must be asked.
    """
    windows = (
        config.providers[target.provider].find_fact("context_tokens", target.model, only_stated=only_stated)
        for target in targets
        for only_stated in (False, True)
    )
    return min((each * BYTES_PER_TOKEN for each in windows if isinstance(each, int)), default=sys.maxsize)


def may_overflow(config: Config, plan: RequestPlan, targets: Sequence[TargetName]) -> bool:
    """Whether the body is so large that the window of a target may not hold the request."""
    size = len(plan.body)
    for target in targets:
        if 0 < _find_window(config.providers[target.provider], target, plan) * BYTES_PER_TOKEN < size:
            return True
    return False


def find_fitting_targets(
    config: Config, plan: RequestPlan, targets: Sequence[TargetName]
) -> tuple[TargetName, ...]:
    """The targets without those that certainly cannot hold the request. Raises if none is left."""
    windows = {target: _find_window(config.providers[target.provider], target, plan) for target in targets}
    try:
        request = plan.request
    except DragomanError:
        # Whether the request can be sent at all is decided for each target.
        return tuple(targets)
    tokens = find_lower_bound(request)
    fitting = tuple(
        target
        for target in targets
        if not 0 < windows[target] < tokens or _may_be_shortened(config, request, target)
    )
    if not fitting:
        raise _build_overflow(config, request, max(targets, key=lambda target: windows[target]), windows)
    return fitting


def _find_window(provider: Provider, target: TargetName, plan: RequestPlan) -> int:
    """The target's window in tokens; 0 if it is unknown.

    A client of the target's own API that names the model itself may know more than the catalogue.
    """
    if provider.keeps_sessions:
        return 0
    is_own = provider.wire_dialect == plan.metadata.dialect
    knows_model = is_own and target.model == plan.model
    window = provider.find_fact("context_tokens", target.model, only_stated=knows_model)
    if not isinstance(window, int):
        return 0
    # Headers of the configuration replace those of the client, which only its own dialect gets.
    headers = dict(plan.metadata.headers) if is_own else {}
    headers |= {name.lower(): value.reveal() for name, value in provider.headers.items()}
    return 0 if dialect_named(provider.wire_dialect).http_api.has_long_context(headers) else window


def _may_be_shortened(config: Config, request: Request, target: TargetName) -> bool:
    is_own = config.providers[target.provider].wire_dialect == request.dialect
    return is_own and may_be_shortened(request)


def _build_overflow(
    config: Config, request: Request, target: TargetName, windows: dict[TargetName, int]
) -> ClientProtocolError:
    """The error for the client. Each dialect writes it in the form that its agents know."""
    tokenizer = find_tokenizer(target.model, config.providers[target.provider].wire_dialect)
    tokens = max(estimate_tokens(request, tokenizer), windows[target] + 1)
    message = (
        f"This model's maximum context length is {windows[target]} tokens."
        f" However, the messages have about {tokens} tokens."
    )
    return ClientProtocolError(message, failure=Failure(kind="context_overflow", status=400, message=message))
