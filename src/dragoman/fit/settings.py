"""The settings rule: the fit of a request for a server of its own dialect, by its settings alone.

Such a client knows its server, so the permissive values of `Facts` apply to it, and most facts that are
stated about a model are about settings. `ABOUT` lists which facts each pass is about. A pass whose facts all
permit everything changes nothing. If all other passes are about settings only, tools and messages stay as the
client sent them, and need not be read.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec

from dragoman.fit.passes import PASSES, Pass, Scope
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.facts import list_changes
from dragoman.providers.profile import TargetFacts


class About(msgspec.Struct, frozen=True):
    """What a pass is about, for clients of the target's own dialect.

    `facts`: while these permit everything, the pass changes nothing. `settings`: the same, if a request has
    none of these; empty: there is no such condition. `is_undone`: a stage of the reply undoes what the pass
    changed.
    """

    facts: str
    settings: tuple[str, ...] = ()
    is_undone: bool = False


#: By the name of the pass. The others change nothing, unless the request has seals of another vendor.
ABOUT: dict[str, About] = {
    "candidates": About("candidates"),
    "names": About(
        "namespaces custom_tools client_tools tool_name_limit tool_name_extra tool_name_letter_first"
    ),
    "declarations": About("deferred_tools"),
    "tools": About(
        "custom_tools client_tools deferred_tools strict_tools hosted_tools search_options"
        " hosted_beside_functions history_needs_tools"
    ),
    "calls": About("custom_tools client_tools"),
    "references": About("deferred_tools"),
    "schemas": About("json_schema schema_alternatives plain_members valid_schemas"),
    "seals": About("issuer"),
    "content": About("refusals"),
    "errors of results": About("error_flag"),
    "media": About("images documents audio video media_in_answers media_titles"),
    "system": About("system developer_role"),
    "empty messages": About("blank_text"),
    "history": About("strict_results"),
    "ids": About("call_id_limit call_id_extra call_id_exact"),
    "media of results": About("media_in_results"),
    "output": About("outputs", settings=("output",)),
    "leading messages": About("system"),
    "last message": About("prefill"),
    "alternation": About("alternation"),
    "first message": About("user_first turns_required"),
    "blank reasoning": About("turns_need_reasoning"),
    "token cap": About("limits_output default_max_tokens min_output_tokens max_output_tokens"),
    "reasoning": About("whole_reasoning reasoning efforts budget_range budget_dynamic always_reasons"),
    "calls without reasoning": About("calls_need_reasoning", settings=("reasoning",)),
    "tool choice": About(
        "choices parallel_control forced_choice_while_reasoning history_needs_tools",
        settings=("tool_choice", "parallel_calls"),
    ),
    "sampling": About("sampling temperature_limit temperature_with_top_p sampling_with_reasoning"),
    "stop sequences": About("stop_limit blank_text", is_undone=True),
    "account": About("service_tiers"),
    "caching": About("caching"),
}


class _ActivePass(msgspec.Struct, frozen=True):
    """A pass that may change a request, and the facts that are the reason."""

    each: Pass
    about: About
    facts: tuple[str, ...]


@lru_cache(maxsize=1024)
def _find_active_passes(target: TargetFacts) -> tuple[_ActivePass, ...]:
    stated = list_changes(target)
    if target.issuer == target.dialect:
        stated.pop("issuer", None)
    found = [(each, ABOUT[each.name]) for each in PASSES if each.name in ABOUT]
    active = [(each, about, stated.keys() & about.facts.split()) for each, about in found]
    return tuple(_ActivePass(each, about, tuple(sorted(facts))) for each, about, facts in active if facts)


def fit_settings(
    request: Request, target: TargetFacts, losses: Losses, concerns: Callable[[str], bool]
) -> Request | None:
    """Fit a request of the target's own dialect by its settings; None if a pass needs the whole request.

    `request` may lack its tools and messages; it has no seals of other vendors. `concerns`: whether its
    messages may contain anything that a fact is about. The model's name stays.
    """
    active = _find_active_passes(target)
    for found in active:
        if found.each.scope is not Scope.SETTINGS and _needs_all(found, request, concerns):
            return None
    for found in active:
        if found.each.scope is Scope.SETTINGS:
            fitted = found.each.apply(request, target, losses)
            if found.about.is_undone and fitted is not request:
                return None
            request = fitted
    return request


def _needs_all(found: _ActivePass, request: Request, concerns: Callable[[str], bool]) -> bool:
    """Whether a pass over tools or messages may change the request."""
    settings = found.about.settings
    if settings and all(getattr(request, name) is None for name in settings):
        return False
    return any(map(concerns, found.facts))
