"""`[[prompts]]`: changes of requests before they are translated. See `model`."""

from typing import Annotated, Literal

import msgspec

from dragoman.config.rules import RuleConditions
from dragoman.config.value_kinds import TABLE
from dragoman.providers.facts import Doc

PromptPlace = Literal["system", "user", "assistant", "tools"]
PromptOperation = Literal["replace", "remove", "insert_before", "insert_after", "prepend", "append", "set"]

#: Operations at the matches of `find`.
AT_MATCHES: frozenset[PromptOperation] = frozenset({"replace", "insert_before", "insert_after"})
#: Conditions that may begin or cease to hold within a conversation. The beginning of the prompt then changes.
UNSTABLE = (
    "tokens_over",
    "tokens_under",
    "images",
    "called",
    "hours",
    "days",
    "classes",
    "effort",
    "thinking",
)


class PromptRule(msgspec.Struct, frozen=True, kw_only=True):
    """`[[prompts]]`: conditions, a place, an operation. All rules whose conditions hold apply, in order."""

    name: Annotated[str, Doc("The name in logs, headers and records; default: its number.")] = ""
    when: Annotated[
        RuleConditions,
        TABLE,
        Doc("The conditions, as in `[rules.when]`; without any, the rule always holds."),
    ] = RuleConditions()
    contains: Annotated[str, Doc("Only if the system text contains a match of this regular expression.")] = ""
    place: Annotated[
        PromptPlace, Doc("What is changed: the system text, texts of the user or of the model, or tools.")
    ] = "system"
    tool: Annotated[str, Doc('The names of the tools, for `place = "tools"`; `*` matches any part.')] = "*"
    operation: Annotated[
        PromptOperation,
        Doc("At each match of `find`, or at the beginning, at the end or instead of each text."),
    ] = "replace"
    find: Annotated[
        str, Doc("A regular expression (RE2). `remove` without it removes the whole text or tool.")
    ] = ""
    text: Annotated[str, Doc("The new text. After `replace`, `\\\\1` is the first group of `find`.")] = ""
    stop: Annotated[bool, Doc("No later rule applies after this one.")] = False
