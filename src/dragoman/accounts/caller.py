"""Whoever asks, as the gateway knows them: by a key, and by what its owner allowed it.

A caller never holds the key itself, so it can be logged, stored and passed on.
"""

from fnmatch import fnmatchcase

import msgspec

from dragoman.hub.errors import DragomanError, Failure

#: How much an error repeats of the client's model name, and how many patterns it lists.
QUOTED = 200
LISTED = 20


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a key may use; 0 is no limit. Costs are in micro-dollars."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    tokens_per_day: int = 0
    tokens_per_month: int = 0
    cost_per_day: int = 0
    cost_per_month: int = 0

    @property
    def has_any(self) -> bool:
        return self != NO_LIMITS

    @property
    def counts_tokens(self) -> bool:
        """Whether a request has to be counted before it may go on."""
        return self.has_any and self != Limits(requests_per_minute=self.requests_per_minute)

    @property
    def counts_cost(self) -> bool:
        return bool(self.cost_per_day or self.cost_per_month)


NO_LIMITS = Limits()


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is what a caller's use is filed under; it is empty where no key is asked for."""

    id: str = ""
    name: str = ""
    #: Something that only this key has, for keys whose id may go on to another.
    mark: str = ""
    #: Patterns of the model names that may be asked for; none is all of them.
    models: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS
    #: The date after which the key is worth nothing, in seconds since the epoch; 0 is never.
    expires: float = 0.0

    @property
    def owner(self) -> str:
        """What a caller's conversations are filed under: nobody else ever has it."""
        return self.mark or self.id


#: Where no key is asked for, everybody is the same.
ANYONE = Caller()


class NoKey(DragomanError):
    kind = "authentication"
    default_status = 401
    default_code = "invalid_api_key"


class ModelForbidden(DragomanError):
    kind = "permission"
    default_status = 403
    default_code = "model_not_allowed"


def may_use(caller: Caller, model: str) -> bool:
    return not caller.models or any(fnmatchcase(model, pattern) for pattern in caller.models)


def check_model(caller: Caller, model: str) -> None:
    """Raise if the caller's key was not made for this model, as the client names it."""
    if may_use(caller, model):
        return
    allowed = ", ".join(caller.models[:LISTED])
    message = f"the key {caller.name!r} may not use the model {model[:QUOTED]!r}; it may use: {allowed}"
    raise ModelForbidden(
        message,
        failure=Failure(
            kind="permission", status=403, message=message, code="model_not_allowed", param="model"
        ),
    )
