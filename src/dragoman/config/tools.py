"""`[tools]`: the tools that the gateway runs itself, and their limits."""

from typing import Annotated

import msgspec

from dragoman.config.key_kinds import TABLE, integer
from dragoman.providers.facts import Doc

#: The group of entry points by which other packages offer tools.
ENTRY_POINTS = "dragoman.tools"


class ToolsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools]`: the limits that all tools of the gateway share in one reply."""

    rounds: Annotated[
        int, integer(1, 100), Doc("How often the model may be asked again with results of these tools.")
    ] = 10
    seconds: Annotated[float, Doc("Seconds that all runs of one reply may take together.")] = 180.0
    run_seconds: Annotated[float, Doc("Seconds that one run may take.")] = 60.0
    tokens: Annotated[
        int, Doc("Tokens of all rounds of one reply, after which no further run starts; 0: no limit.")
    ] = 2_000_000
    result_chars: Annotated[int, integer(100), Doc("The longest result for the model, in characters.")] = (
        50_000
    )
    memory_mb: Annotated[
        int, integer(1), Doc("Megabytes of results that are kept for later requests of a conversation.")
    ] = 64
    plugins: Annotated[
        dict[str, dict[str, object]],
        TABLE,
        Doc("Tools of other packages, by the name of their entry point, each with its own settings."),
    ] = {}

    def list_names(self) -> tuple[str, ...]:
        """The names of the configured tools, as `tools` of a route or provider selects them."""
        return tuple(self.plugins)
