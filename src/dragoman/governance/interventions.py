"""The report of a governance stage: what it did to a request or a reply.

An intervention holds names, counts and lengths, never text of a model or a user: that can be a secret.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

InterventionKind = Literal[
    "prompt",
    "choice",
    "contract",
    "repair",
    "harvest",
    "hold",
    "guard",
    "dedupe",
    "validate",
    "rename",
    "undeclared",
    "exit",
    "unrepairable",
]


#: Kinds that change requests; all others concern replies.
REQUEST_KINDS: frozenset[InterventionKind] = frozenset({"prompt", "choice", "contract"})


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """One change to a request or a reply, or one finding in it.

    `detail`: the repair steps, the format of a harvest, the verdict and the rules of the guard. `before` and
    `after`: lengths in characters. `ok` is false if no usable call resulted.
    """

    kind: InterventionKind
    tool: str = ""
    detail: tuple[str, ...] = ()
    before: int = 0
    after: int = 0
    ok: bool = True
    reason: str = ""
    #: Seconds for which the call was held.
    held: float = 0.0


#: Takes the interventions of one reply; the exchange adds request, model and time.
Report = Callable[[Intervention], None]
