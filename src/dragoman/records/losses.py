"""The losses of a session in groups, and what can be done about each.

A request repeats its history, so one cause makes a loss of its own for every message, in every turn. Losses
with the same reason are one group if their paths differ only in the indices of lists.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.hub.loss import Loss

_INDEX = re.compile(r"\[\d+\]")

#: What can be done, by the reasons of losses. Facts: docs/configuration.md. The first match counts.
ADVICE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(reason), advice)
    for reason, advice in (
        # What the configuration or healing has decided.
        (r"by a payload rule$", "the payload rules of the configuration ask for it"),
        (
            r"^the target refused the request, which was changed",
            "nothing; `dragoman docs healing` says how to make it permanent",
        ),
        (r"^the target refuses this field$", "remove it from refused_fields if the server accepts it"),
        # Facts of the model. If the model has the feature, the fact says so, and nothing is lost.
        (r"^the target takes no image$", "set images = true if the model accepts them"),
        (r"^the target takes no document$", "set documents = true if the model accepts them"),
        (r"^the target takes no audio$", "set audio = true if the model accepts it"),
        (r"^the target takes no video$", "set video = true if the model accepts it"),
        (r" in the assistant's messages$", "set media_in_answers = true if the server accepts them"),
        (
            r"^lowered to .*, the most that the target gives$",
            "raise max_output_tokens if the model gives more",
        ),
        (
            r"^lowered to .*, the most that the target takes$",
            "raise temperature_limit if the model takes more",
        ),
        (
            r"^raised to .*, the least that the target takes$",
            "lower min_output_tokens if the model takes less",
        ),
        (r"^the target sets the length of its answers", "set limits_output = true if the server has a limit"),
        (r"^the target has no such setting$", "add it to sampling if the model has it"),
        (r"have no token probabilities$", "add logprobs to sampling if the model has them"),
        (r"does not take it while reasoning$", "set sampling_with_reasoning = true if the model takes it"),
        (r"temperature or top_p, not both$", "set temperature_with_top_p = true if the model takes both"),
        (r"^the target has no (effort|setting for the effort)", "add it to efforts if the model has it"),
        (r"^the target does not reason on demand$", "set reasoning if the model can reason"),
        (r"^the target reasons only in streams$", "set whole_reasoning = true if the server can do it"),
        (r"^the target takes no such budget", "set budget_range if the model has other limits"),
        (r"^the target has no strict tools$", "set strict_tools = true if the server has them"),
        (r"^the target does not run the tool .* itself$", "add it to hosted_tools if the vendor runs it"),
        (r" beside functions$", "set hosted_beside_functions = true if the vendor runs both"),
        (r"^the target's own .* has no such option$", "add it to search_options if it exists"),
        (r"kept to one call at a time$", "set parallel_control = true if the server has it"),
        (r"forced to call a tool$|forbidden to call tools$", "add it to choices if the server has it"),
        (r"when a call is forced$", "set forced_choice_while_reasoning = true if the model can do both"),
        (
            r"^the target has no such way to cache",
            "set caching if the server can be told; many cache by themselves",
        ),
        (r"^the target has no tier ", "add it to service_tiers if the server has it"),
        (r"cannot be held to JSON", "add the format to outputs if the server has it"),
        (r"cannot continue a begun answer", "set prefill = true if the model continues it"),
        # What belongs to one API or one vendor.
        (
            r"^reasoning (cannot go to another model|that another vendor sealed)",
            "stay with one model in a session",
        ),
        (r"^no other (dialect|model) |one vendor only$", "use a target of the client's own API"),
    )
)


class LossGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Losses with one reason at places that differ only in the indices of lists."""

    #: With `*` for each index; empty for a reply.
    path: str
    reason: str
    turns: int
    count: int
    #: The numbers of the first turn and of the last one.
    first: int
    last: int
    #: Empty if nothing is known.
    advice: str


class _Sums(msgspec.Struct):
    turns: int = 0
    count: int = 0
    first: int = 0
    last: int = 0


def group_losses(turns: Iterable[tuple[int, Sequence[Loss]]]) -> list[LossGroup]:
    """The losses of turns, given by their numbers, in groups: those of most turns first."""
    groups: dict[tuple[str, str], _Sums] = {}
    for number, losses in turns:
        counted: dict[tuple[str, str], int] = {}
        for loss in losses:
            key = (find_pattern(loss.path), loss.reason)
            counted[key] = counted.get(key, 0) + 1
        for key, count in counted.items():
            sums = groups.setdefault(key, _Sums(first=number, last=number))
            sums.turns += 1
            sums.count += count
            sums.first, sums.last = min(sums.first, number), max(sums.last, number)
    found = [
        LossGroup(path=path, reason=reason, advice=find_advice(reason), **msgspec.structs.asdict(sums))
        for (path, reason), sums in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.turns, -group.count, group.path, group.reason))


def find_pattern(path: str) -> str:
    """The path with `*` for each index of a list."""
    return _INDEX.sub("[*]", path)


def find_advice(reason: str) -> str:
    """What can be done about a loss; empty if that is not known."""
    return next((advice for pattern, advice in ADVICE if pattern.search(reason)), "")
