"""Requests that lean on what another vendor keeps are refused: without it they mean something else."""

from dragoman.fit.editing import is_foreign
from dragoman.hub.content import Opaque
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target

WHOLE = "send the whole conversation instead"

#: Fields without a place in the hub that cannot be ignored, and what to do instead.
REFUSED: dict[str, str] = {
    "background": "leave it out and wait for the reply",
    "conversation": WHOLE,
    "prompt": "send the prompt itself instead of its id",
}

#: Items that stand for something stored.
REFERENCES = frozenset({"item_reference"})


def state(request: Request, target: Target, losses: Losses) -> Request:
    if not is_foreign(request, target):
        return request
    if request.previous_response_id:
        path = request.path_of("previous_response_id")
        raise ClientProtocolError("this target keeps no earlier responses", path=path, hint=WHOLE)
    for name, hint in REFUSED.items():
        if request.extras.get(name) not in (None, False):
            raise ClientProtocolError("this target does not support it", path=name, hint=hint)
    for turn in request.turns:
        for block in turn.blocks:
            if type(block) is Opaque and block.kind in REFERENCES:
                raise ClientProtocolError("this target keeps no items", path=block.at, hint=WHOLE)
    return request
