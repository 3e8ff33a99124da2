"""Token counts of a reply, with one meaning for all dialects.

`input` is the whole prompt with its cached parts; `output` is everything that was generated, with reasoning.
None means "not reported", which differs from zero. Reports are cumulative: a later one replaces the counts
that it has and keeps the others.
"""

from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """One report of token counts. None: the upstream did not report the count."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    #: The part of `cache_write` with a lifetime of one hour.
    cache_write_long: int | None = None
    reasoning: int | None = None
    #: Prompt tokens that server-side tools added (Gemini counts them separately).
    tool_input: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None
    web_searches: int | None = None
    #: Fields of the source dialect that have no place here; written to that dialect only.
    extras: dict[str, object] = {}

    @property
    def total(self) -> int:
        return (self.input or 0) + (self.output or 0)

    def merge(self, later: "Usage") -> "Usage":
        """This report with the counts of a later one."""
        changes: dict[str, object] = {
            name: value for name in _COUNTS if (value := getattr(later, name)) is not None
        }
        if later.extras:
            changes["extras"] = {**self.extras, **later.extras}
        return msgspec.structs.replace(self, **changes) if changes else self

    def add(self, other: "Usage") -> "Usage":
        """The sum of two replies, without extras. A count that neither reports stays unknown."""
        counts: dict[str, Any] = {}
        for name in _COUNTS:
            one, two = getattr(self, name), getattr(other, name)
            counts[name] = two if one is None else one + (two or 0)
        return Usage(**counts)

    def select_prompt(self) -> "Usage":
        """The counts of the prompt alone."""
        return Usage(**{name: getattr(self, name) for name in PROMPT_COUNTS})

    def select_generated(self) -> "Usage":
        """The other counts alone, as those of a reply without a prompt."""
        return Usage(input=0, **{name: getattr(self, name) for name in _COUNTS if name not in PROMPT_COUNTS})


_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "extras")
#: The counts that describe the prompt. All others add up over the rounds of a reply.
PROMPT_COUNTS = ("input", "cache_read", "cache_write", "cache_write_long", "tool_input", "audio_input")
