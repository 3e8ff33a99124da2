"""The failure of a target as clients see it: it names the target, the address and the next step.

The person behind an agent sees this text only. A refused key or a server that is down is no fault of the
client: with a 401 agents ask their user to log in, and with a 503 they report that the model is at capacity.
"""

import msgspec

from dragoman.config.provider import Provider, TargetName
from dragoman.config.secrets import hide_password
from dragoman.hub.errors import DragomanError, Failure, FailureKind
from dragoman.routing.retry import concerns_session, find_retry_action

#: What the person who runs the gateway can do about a failure.
_NEXT_STEPS: dict[FailureKind, str] = {
    "billing": "check the account at this provider",
    "quota": "check the account at this provider, or add another target to the route",
    "not_found": "check the model's name in the route, and base_url of the provider",
    "rate_limit": "wait, or add another target to the route",
    "server": "try again, or add another target to the route",
    "overloaded": "try again, or add another target to the route",
    "timeout": "try again, or raise the timeouts of the provider",
}
#: Kinds whose message keeps its form: clients read the numbers in it, or it already names everything.
_KEPT_KINDS: frozenset[FailureKind] = frozenset(
    {"context_overflow", "cancelled", "unreachable", "misconfigured"}
)


def build_client_failure(failure: Failure, provider: Provider, target: TargetName) -> Failure:
    """The failure of a target, after all of its tries, as the client gets it."""
    if concerns_session(failure) or failure.kind in _KEPT_KINDS:
        return failure
    if provider.uses_client_credential and failure.kind in ("authentication", "permission"):
        # The client's own credential was refused. With the true status its agent asks for a new login.
        return failure
    place = f"{target} at {hide_password(provider.base_url)}" if provider.base_url else str(target)
    if failure.kind in ("authentication", "permission") and "policy" not in failure.code:
        message = f"{failure.message} ({place}; {_advise_key(provider)})"
        return Failure(
            kind="misconfigured", message=message, request_id=failure.request_id, code="provider_key_refused"
        )
    step = _NEXT_STEPS.get(failure.kind, "")
    message = f"{failure.message} ({place}{'; ' + step if step else ''})"
    return msgspec.structs.replace(failure, message=message)


def _advise_key(provider: Provider) -> str:
    variables = [key.variable for key in provider.keys if key.variable]
    if variables:
        return f"check the variable {variables[0]} of the gateway"
    key = "check" if provider.keys else "set"
    return f"{key} api_key of [providers.{provider.name}] in the gateway's configuration"


def choose_error(errors: list[DragomanError]) -> DragomanError:
    """The error that the client gets if all targets failed: the first that a retry may solve, or the last."""
    passing = (error for error in errors if find_retry_action(error.failure) == "retry")
    return next(passing, errors[-1])
