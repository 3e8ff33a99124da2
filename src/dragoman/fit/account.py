"""Who asks, and on what terms: the end user, metadata, storage and the service tier."""

from dragoman.fit.editing import is_foreign, replace
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target

#: Vendors refuse longer ids; what is longer is a bundle of the client's own ids, which stay with us.
USER_LIMIT = 64

#: What the vendors call the same tier.
TIERS: tuple[frozenset[str], ...] = (
    frozenset({"default", "standard", "standard_only"}),
    frozenset({"priority", "fast"}),
    frozenset({"flex"}),
)

#: Wishes about the reply that hold without being passed on.
KEPT_ANYWAY = frozenset({"reasoning.encrypted_content"})


def account(request: Request, target: Target, losses: Losses) -> Request:
    request = _service_tier(request, target, losses)
    if not is_foreign(request, target):
        return request
    changes: dict[str, object] = {}
    if len(request.user) > USER_LIMIT:
        changes["user"] = "user_" + digest(request.user)
    if request.metadata is not None:
        if any(value is not None for value in request.metadata.values()):
            losses.add(request.path_of("metadata"), "metadata stays with the client's own vendor")
        changes["metadata"] = None
    if request.store is not None:
        if request.store:
            losses.add(request.path_of("store"), "the target does not store replies")
        changes["store"] = None
    if request.include:
        if not KEPT_ANYWAY.issuperset(request.include):
            losses.add(request.path_of("include"), "the target's replies carry no such extras")
        changes["include"] = tuple(name for name in request.include if name in KEPT_ANYWAY)
        if changes["include"] == request.include:
            del changes["include"]
    return replace(request, **changes) if changes else request


def _service_tier(request: Request, target: Target, losses: Losses) -> Request:
    tier = request.service_tier
    if not tier or target.service_tiers is None or tier in target.service_tiers:
        return request
    alike = next((alike for alike in TIERS if tier in alike), frozenset())
    equal = sorted(alike & target.service_tiers)
    if not equal and tier != "auto":
        losses.add(request.path_of("service_tier"), f"the target has no tier {tier!r}")
    return replace(request, service_tier=equal[0] if equal else "")
