"""What the steps of governance tell their runner, and what they know of the tools that were declared.

An intervention says what was done and how much of it, never the words themselves: those may be a secret.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

InterventionKind = Literal[
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


#: What is done to requests; all else is done to replies.
REQUEST_KINDS: frozenset[InterventionKind] = frozenset({"choice", "contract"})


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that governance did to a reply, or found in it.

    `detail` names what applied: repair steps, the format of a harvest, the rule of a guard. `before` and
    `after` are lengths in characters. `ok` is False where the outcome is no good call.
    """

    kind: InterventionKind
    tool: str = ""
    detail: tuple[str, ...] = ()
    before: int = 0
    after: int = 0
    ok: bool = True
    reason: str = ""
    #: Seconds that the call was held back, by the clock that the stage was given.
    held: float = 0.0


#: Where interventions go; whoever runs the stages adds request, model and time.
Report = Callable[[Intervention], None]
