"""The settings rule: what is fitted without tools and messages equals the fit of the whole request."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from dragoman.fit import PASSES, fit
from dragoman.fit.seals import belongs, list_seals
from dragoman.fit.settings import ABOUT, fit_settings
from dragoman.hub.blocks import Media, Refusal, ToolResult
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, list_blocks
from dragoman.providers.dialect_facts import DIALECT_FACTS
from dragoman.providers.facts import PERMISSIVE, Facts, list_changes
from dragoman.providers.presets import list_catalogues, load_catalogue
from dragoman.providers.profile import TargetFacts
from tests.fit.building import target_for
from tests.fit.strategies import requests

#: Every value of a fact that an API, the catalogue or a flag has, but for the permissive one.
VALUES: dict[str, list[Any]] = {name: [] for name in Facts.__struct_fields__}
for row in DIALECT_FACTS.values():
    for name, value in list_changes(row).items():
        VALUES[name].append(value)
for catalogue in filter(None, map(load_catalogue, list_catalogues())):
    for stated in catalogue.models.values():
        for name, value in asdict(target_for("gemini", "gemini", **stated)).items():
            if name in VALUES and value != getattr(PERMISSIVE, name):
                VALUES[name].append(value)
for name, value in asdict(PERMISSIVE).items():
    if isinstance(value, bool):
        VALUES[name].append(not value)

stated_facts = st.sets(st.sampled_from([name for name in VALUES if VALUES[name]]), max_size=4).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(VALUES[name]) for name in sorted(names)})
)


def find_subjects(asked: Request) -> set[str]:
    """The facts about blocks that the conversation has."""
    kinds = {"image": "images", "document": "documents", "audio": "audio", "video": "video"}
    outer = list_blocks(asked.messages)
    blocks = [*outer, *(each for block in outer if isinstance(block, ToolResult) for each in block.content)]
    refusals = {"refusals"} if any(isinstance(block, Refusal) for block in blocks) else set()
    return refusals | {kinds[block.kind] for block in blocks if isinstance(block, Media)}


def build_own(asked: Request, facts: dict[str, Any]) -> TargetFacts:
    target = target_for(asked.dialect, asked.dialect, **facts)
    assume(all(belongs(seal, asked, target) for seal in list_seals(asked)))
    return target


@settings(max_examples=400)
@given(requests(), stated_facts)
def test_a_pass_that_is_about_no_stated_fact_changes_nothing(asked: Request, facts: dict[str, Any]) -> None:
    target = build_own(asked, facts)
    for each in PASSES:
        about = ABOUT[each.name].facts.split() if each.name in ABOUT else []
        if facts.keys().isdisjoint(about) and each.name != "model":
            losses = Losses()
            assert each.apply(asked, target, losses) is asked, each.name
            assert len(losses) == 0


@settings(max_examples=600)
@given(requests(), stated_facts)
def test_the_settings_alone_are_fitted_like_the_whole_request(asked: Request, facts: dict[str, Any]) -> None:
    target = build_own(asked, facts)
    subjects = find_subjects(asked)
    losses, whole_losses = Losses(), Losses()
    outcomes: list[object] = []
    about_blocks = {"images", "documents", "audio", "video", "refusals"}
    try:
        bare = replace(asked, tools=(), messages=())
        fitted = fit_settings(bare, target, losses, lambda fact: fact not in about_blocks or fact in subjects)
        if fitted is None:
            return
        outcomes.append(replace(fitted, tools=asked.tools, messages=asked.messages))
    except DragomanError as error:
        outcomes.append(str(error))
    try:
        outcomes.append(replace(fit(asked, target, whole_losses), model=asked.model))
    except DragomanError as error:
        outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    if isinstance(outcomes[0], Request):
        assert losses.as_tuple() == whole_losses.as_tuple()


def test_every_row_belongs_to_a_pass_and_to_facts() -> None:
    assert ABOUT.keys() <= {each.name for each in PASSES}
    assert {fact for about in ABOUT.values() for fact in about.facts.split()} <= VALUES.keys()


@pytest.mark.parametrize(
    ("facts", "is_enough"),
    [
        ({"max_output_tokens": 10, "context_tokens": 10, "price_input": 1.0}, True),
        ({"documents": False}, True),
        ({"images": False}, False),
        ({"system": "user"}, False),
        ({"choices": frozenset({"auto"})}, True),
        # A stage of the reply looks for the stop sequences that the target does not take.
        ({"stop_limit": 1}, False),
    ],
)
def test_settings_are_enough_unless_a_fact_is_about_something_else(
    facts: dict[str, Any], is_enough: bool
) -> None:
    target = target_for("anthropic", "anthropic", **facts)
    asked = Request(dialect="anthropic", model="m", max_tokens=20, stop=("one", "two"))
    fitted = fit_settings(asked, target, Losses(), lambda fact: fact != "documents")
    assert (fitted is not None) == is_enough
