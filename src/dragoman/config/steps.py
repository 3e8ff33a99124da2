"""`[steps.NAME]`: transformation steps, which change requests and replies of some providers or routes."""

from typing import Annotated

import msgspec

from dragoman.config.value_kinds import TABLE
from dragoman.providers.facts import Doc

#: The group of entry points by which other packages offer steps.
STEP_ENTRY_POINTS = "dragoman.steps"
#: The steps that dragoman has. They need no table.
BUILT_IN_STEPS = ("force_reasoning",)


class StepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[steps.NAME]`: one step. Providers and routes select it by its name."""

    use: Annotated[str, Doc("The name of the step in its package; default: the name of the table.")] = ""
    models: Annotated[str, Doc("The target's models that it applies to; `*` matches any part.")] = "*"
    settings: Annotated[dict[str, object], TABLE, Doc("What the step itself can be configured with.")] = {}
