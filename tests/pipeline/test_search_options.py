"""Options of a vendor's web search: translated for the other vendor, or reported as a loss."""

import pytest

from dragoman.pipeline import Translation, translate_request
from dragoman.providers.profile import Profile
from tests.pipeline.asking import asking

Json = dict[str, object]

BERLIN: Json = {"type": "approximate", "city": "Berlin", "country": "DE", "timezone": "Europe/Berlin"}
OF_ANTHROPIC: Json = {"type": "web_search_20250305", "name": "web_search"}
OF_OPENAI: Json = {"type": "web_search"}


def translated(tool: Json, source: str, target: str, **more: object) -> Translation:
    request = asking(source) | {"tools": [tool], **more}
    return translate_request(request, source=source, target=target, model="m")


def paths(translation: Translation) -> list[str]:
    return [loss.path for loss in translation.losses]


SAME: list[tuple[Json, Json]] = [
    ({"allowed_domains": ["a.org", "b.org"]}, {"filters": {"allowed_domains": ["a.org", "b.org"]}}),
    ({"user_location": BERLIN}, {"user_location": BERLIN}),
    ({"user_location": {"type": "approximate"}}, {"user_location": {"type": "approximate"}}),
]


@pytest.mark.rule("H28")
@pytest.mark.parametrize(("anthropic", "openai"), SAME)
def test_domains_and_location_are_reported_in_the_other_vendors_words(anthropic: Json, openai: Json) -> None:
    out = translated(OF_ANTHROPIC | anthropic, "anthropic", "openai_responses")
    back = translated(OF_OPENAI | openai, "openai_responses", "anthropic")
    mark = {"cache_control": {"type": "ephemeral"}}
    assert (out.body["tools"], paths(out)) == ([OF_OPENAI | openai], [])
    assert (back.body["tools"], paths(back)) == ([OF_ANTHROPIC | anthropic | mark], [])


LOST: list[tuple[str, Json, str, str]] = [
    ("anthropic", OF_ANTHROPIC | {"max_uses": 8}, "openai_responses", "tools[0].max_uses"),
    ("anthropic", OF_ANTHROPIC | {"max_uses": 8}, "gemini", "tools[0].max_uses"),
    (
        "anthropic",
        OF_ANTHROPIC | {"blocked_domains": ["x.org"]},
        "openai_responses",
        "tools[0].blocked_domains",
    ),
    ("anthropic", OF_ANTHROPIC | {"blocked_domains": ["x.org"]}, "gemini", "tools[0].blocked_domains"),
    ("anthropic", OF_ANTHROPIC | {"user_location": BERLIN}, "gemini", "tools[0].user_location"),
    ("anthropic", OF_ANTHROPIC | {"response_inclusion": "excluded"}, "gemini", "tools[0].response_inclusion"),
    (
        "openai_responses",
        OF_OPENAI | {"search_context_size": "low"},
        "anthropic",
        "tools[0].search_context_size",
    ),
    (
        "openai_responses",
        OF_OPENAI | {"external_web_access": False},
        "gemini",
        "tools[0].external_web_access",
    ),
    (
        "openai_responses",
        OF_OPENAI | {"filters": {"allowed_domains": ["x.org"]}},
        "gemini",
        "tools[0].filters.allowed_domains",
    ),
    (
        "openai_responses",
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}},
        "anthropic",
        "tools[0].container",
    ),
    (
        "gemini",
        {"googleSearch": {"timeRangeFilter": {}, "searchTypes": {"webSearch": {}}}},
        "anthropic",
        "tools[0].googleSearch.searchTypes",
    ),
    (
        "gemini",
        {"googleSearch": {"excludeDomains": ["x.org"]}},
        "openai_responses",
        "tools[0].googleSearch.excludeDomains",
    ),
]


@pytest.mark.rule("H28")
@pytest.mark.parametrize(("source", "tool", "target", "path"), LOST)
def test_what_the_other_search_cannot_be_reported_is_a_loss_at_its_place(
    source: str, tool: Json, target: str, path: str
) -> None:
    translation = translated(tool, source, target)
    assert paths(translation) == [path]
    assert translation.body["tools"]


@pytest.mark.rule("H28")
@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_saying_what_holds_anyway_is_no_loss(target: str) -> None:
    usual = OF_OPENAI | {"search_context_size": "medium", "external_web_access": True}
    assert paths(translated(usual, "openai_responses", target)) == []
    runs: Json = {"type": "code_interpreter", "container": {"type": "auto"}}
    assert paths(translated(runs, "openai_responses", target)) == []


@pytest.mark.rule("H28")
def test_anthropic_blocks_what_gemini_excludes() -> None:
    excluding: Json = {"googleSearch": {"excludeDomains": ["x.org"]}}
    mark = {"cache_control": {"type": "ephemeral"}}
    translation = translated(excluding, "gemini", "anthropic")
    assert translation.body["tools"] == [OF_ANTHROPIC | {"blocked_domains": ["x.org"]} | mark]


@pytest.mark.rule("H28")
def test_a_profile_can_state_that_its_search_takes_more() -> None:
    profile = Profile(dialect="gemini", search_options=frozenset({"blocked_domains"}))
    request = asking("anthropic") | {"tools": [OF_ANTHROPIC | {"blocked_domains": ["x.org"]}]}
    translation = translate_request(request, source="anthropic", target="gemini", profile=profile)
    assert translation.body["tools"] == [{"googleSearch": {"excludeDomains": ["x.org"]}}]
    assert paths(translation) == []


AT_HOME: list[tuple[str, Json]] = [
    ("anthropic", OF_ANTHROPIC | {"max_uses": None, "allowed_domains": [], "user_location": None}),
    ("anthropic", OF_ANTHROPIC | {"allowed_domains": ["a"], "blocked_domains": ["b"], "max_uses": 3}),
    ("anthropic", OF_ANTHROPIC | {"user_location": BERLIN | {"region": None, "city": ""}}),
    ("anthropic", OF_ANTHROPIC | {"user_location": {"type": "exact", "city": "Berlin"}, "max_uses": "3"}),
    ("openai_responses", OF_OPENAI | {"filters": {"allowed_domains": ["a"], "more": None}}),
    ("openai_responses", OF_OPENAI | {"filters": {}, "search_context_size": None, "user_location": BERLIN}),
    ("openai_responses", OF_OPENAI | {"filters": {"allowed_domains": ["a", 1]}, "external_web_access": "no"}),
    ("openai_responses", OF_OPENAI | {"user_location": BERLIN | {"region": None}}),
    ("gemini", {"googleSearch": {"excludeDomains": ["x"], "timeRangeFilter": None}}),
    ("gemini", {"google_search": {"excludeDomains": []}}),
]


@pytest.mark.rule("R4", "H28")
@pytest.mark.parametrize(("dialect", "tool"), AT_HOME)
def test_at_home_options_stay_as_they_were_spelled(dialect: str, tool: Json) -> None:
    translation = translated(tool, dialect, dialect)
    assert (translation.body["tools"], paths(translation)) == ([tool], [])


READ: Json = {"name": "Read", "description": "It.", "input_schema": {"type": "object", "properties": {}}}


@pytest.mark.rule("H28", "P30")
def test_gemini_gets_no_search_beside_functions_unless_its_profile_takes_both() -> None:
    request = asking("anthropic") | {"tools": [OF_ANTHROPIC | {"max_uses": 8}, READ]}
    alone = translate_request(request, source="anthropic", target="gemini")
    assert "googleSearch" not in str(alone.body["tools"])
    assert paths(alone) == ["tools[0]"]
    both = translate_request(
        request,
        source="anthropic",
        target="gemini",
        profile=Profile(dialect="gemini", hosted_beside_functions=True),
    )
    assert "googleSearch" in str(both.body["tools"])
    assert both.body["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert paths(both) == ["tools[0].max_uses"]


@pytest.mark.rule("H32", "P35")
@pytest.mark.parametrize(
    ("choice", "lost"),
    [
        ({"type": "auto"}, []),
        ({"type": "any"}, ["tool_choice"]),
        ({"type": "tool", "name": "web_search"}, ["tool_choice"]),
    ],
)
def test_gemini_takes_a_choice_only_among_functions(choice: Json, lost: list[str]) -> None:
    translation = translated(OF_ANTHROPIC, "anthropic", "gemini", tool_choice=choice)
    assert "toolConfig" not in translation.body
    assert paths(translation) == lost


@pytest.mark.rule("H32", "P35")
def test_a_choice_of_a_search_is_made_by_the_name_it_has_at_the_target() -> None:
    preview: Json = {"type": "web_search_preview"}
    chosen = translated(preview, "openai_responses", "anthropic", tool_choice={"type": "web_search_preview"})
    assert chosen.body["tool_choice"] == {"type": "tool", "name": "web_search"}
    back = translated(
        OF_ANTHROPIC, "anthropic", "openai_responses", tool_choice={"type": "tool", "name": "web_search"}
    )
    assert back.body["tool_choice"] == {"type": "web_search"}


#: The same options in the words of Chat and of Responses.
OF_CHAT: list[tuple[Json, Json]] = [
    ({}, {}),
    ({"search_context_size": "low"}, {"search_context_size": "low"}),
    (
        {"user_location": {"type": "approximate", "approximate": {"city": "Berlin", "country": "DE"}}},
        {"user_location": {"type": "approximate", "city": "Berlin", "country": "DE"}},
    ),
]


@pytest.mark.rule("H28")
@pytest.mark.parametrize(("options", "tool"), OF_CHAT)
def test_the_search_of_chat_clients_is_the_search_of_other_vendors(options: Json, tool: Json) -> None:
    request = asking("openai_chat") | {"web_search_options": options}
    request.pop("tools", None)
    out = translate_request(dict(request), source="openai_chat", target="openai_responses", model="m")
    assert (out.body["tools"], paths(out)) == ([OF_OPENAI | tool], [])
    same = translate_request(dict(request), source="openai_chat", target="openai_chat", model="m")
    assert (same.body["web_search_options"], same.losses) == (options, ())
    # A Chat server that has a search gets it so from clients of other vendors.
    profile = Profile(dialect="openai_chat", hosted_tools=["web_search"])
    asked = asking("openai_responses") | {"tools": [OF_OPENAI | tool]}
    back = translate_request(asked, source="openai_responses", target="openai_chat", profile=profile)
    assert (back.body["web_search_options"], "tools" in back.body, paths(back)) == (options, False, [])


@pytest.mark.parametrize(
    "odd", [{"user_location": {"type": "approximate"}}, {"user_location": 5}, {"new": 1}]
)
def test_options_of_another_form_stay_as_they_are(odd: Json) -> None:
    request = asking("openai_chat") | {"web_search_options": odd}
    same = translate_request(dict(request), source="openai_chat", target="openai_chat", model="m")
    assert same.body["web_search_options"] == odd
    out = translate_request(dict(request), source="openai_chat", target="anthropic", model="m")
    assert f"web_search_options.{next(iter(odd))}" in paths(out)
