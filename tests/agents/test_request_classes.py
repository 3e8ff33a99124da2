"""The class of a request: background requests of each agent are distinguished from the user's work."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents import RequestClass
from dragoman.agents.instructions import _PROJECT, Instructions
from dragoman.hub.request import Request
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.routing.traits import RequestTraits

RECORDINGS = Path(__file__).parents[1] / "recordings"
CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)"}

Json = dict[str, Any]


def plan(
    body: Json, headers: dict[str, str] = CLAUDE, dialect: str = "anthropic", model: str = ""
) -> RequestPlan:
    metadata = RequestMetadata(dialect=dialect, headers=headers, model=model)
    made = RequestPlan(metadata, msgspec.json.encode(body))
    made.peek()
    return made


def classify(made: RequestPlan) -> RequestClass:
    return RequestTraits(made, clock=lambda: pytest.fail("no rule asks for the time")).request_class


def message(text: str, **members: object) -> Json:
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": text}],
        **members,
    }


TITLE = {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {"title": {}}}}}
TOOL = {"name": "Read", "input_schema": {"type": "object"}}
SUMMARY = "Your task is to create a detailed summary of the conversation so far, paying close attention"

CASES: dict[str, tuple[Json, RequestClass]] = {
    "a turn": (message("Please read notes.txt", tools=[TOOL]), "turn"),
    "a quota probe": (message("quota", max_tokens=1), "quota"),
    "the word alone": (message("quota"), "turn"),
    "a warm-up": (message("Warmup", tools=[TOOL]), "warmup"),
    "a title": (message("fix the test", output_config=TITLE), "title"),
    "a title schema with tools": (message("fix", output_config=TITLE, tools=[TOOL]), "turn"),
    "a compaction": (message(SUMMARY, tools=[TOOL]), "compaction"),
    "a summary by the system text": (
        message("go", system="You are a helpful AI assistant tasked with summarizing conversations."),
        "compaction",
    ),
    "the small model": ({**message("x"), "model": "claude-haiku-4-5"}, "background"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_chores_of_claude_code_are_recognised(case: str) -> None:
    body, expected = CASES[case]
    assert classify(plan(body)) == expected


def test_words_of_another_client_are_no_chore() -> None:
    body, _ = CASES["a quota probe"]
    assert classify(plan(body, {"user-agent": "my-app/1.0"})) == "turn"


RECORDED: dict[str, RequestClass] = {
    "openai_responses/request-codex-compaction": "compaction",
    "openai_responses/request-codex-local-model-first-turn": "turn",
    "gemini/request-gemini-cli-auto-router": "background",
    "gemini/request-gemini-cli-first-turn": "turn",
    "anthropic/request-claude-code-first-turn": "turn",
    "anthropic/request-claude-code-subagent": "turn",
    "anthropic/request-claude-code-json-schema": "turn",
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_requests_have_their_class(name: str) -> None:
    recording = msgspec.json.decode((RECORDINGS / f"{name}.json").read_bytes())
    dialect = name.partition("/")[0]
    path = recording["path"]
    model = path.partition("/models/")[2].partition(":")[0]
    made = plan(recording["body"], recording["headers"], dialect, model)
    assert classify(made) == RECORDED[name]


def read(body: Json) -> Request:
    return plan(body).request


PROJECTS = {
    "Claude Code": message(
        "hi", system="Here is the environment\n - Primary working directory: /src/shop\n - Is a git"
    ),
    "OpenCode": message("hi", system="<env>\n  Working directory: /src/shop\n  Platform: linux"),
    "Codex": message("<environment_context>\n  <cwd>/src/shop</cwd>\n"),
}


@pytest.mark.parametrize("agent", PROJECTS)
def test_the_project_is_found_where_the_agent_names_it(agent: str) -> None:
    assert Instructions(read(PROJECTS[agent]).messages).project == "/src/shop"


#: Pieces of which texts are made that do and do not name a folder.
PIECES = (
    *("Primary working directory: ", "Working Directory: ", "workspace directories:\n - ", "<cwd>"),
    *("I'm currently working in the following directories:\n  - ", "working in the directory: "),
    *("/src/shop", "/src/a b", "</cwd>", "\n", " ", "the directory ", "working", "other words " * 30),
)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_fast_search_finds_what_the_pattern_finds(text: str) -> None:
    found = _PROJECT.search(text)
    wanted = found[1].strip().rstrip("/") if found else ""
    assert Instructions(read(message("hi", system=text or "none")).messages).project == wanted


@pytest.mark.rule("R119")
def test_a_marker_counts_only_in_instructions() -> None:
    markers = {"lead": ("hydra:lead",)}
    reminder = "<system-reminder>\n# claudeMd\n<!-- hydra:lead -->\n</system-reminder>"
    assert Instructions(read(message("hi", system="you are hydra:lead")).messages).find_roles(markers) == {
        "lead"
    }
    assert Instructions(read(message(reminder)).messages).find_roles(markers) == {"lead"}
    assert (
        Instructions(read(message("I read hydra:lead somewhere")).messages).find_roles(markers) == frozenset()
    )
    result = {"type": "tool_result", "tool_use_id": "t", "content": reminder}
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    later = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, {"type": "text", "text": reminder}]},
    ]
    assert Instructions(read({**message(""), "messages": later}).messages).find_roles(markers) == frozenset()


def test_a_model_tag_counts_only_at_the_beginning_of_a_system_text() -> None:
    tag = "<CCR-SUBAGENT-MODEL>p,m</CCR-SUBAGENT-MODEL>"
    blocks = [{"type": "text", "text": "identity"}, {"type": "text", "text": f"{tag}You review."}]
    assert Instructions(read(message("hi", system=blocks)).messages).model_tag == (tag, "p,m")
    assert Instructions(read(message("hi", system=f"first {tag}")).messages).model_tag == ("", "")
    assert Instructions(read(message(tag)).messages).model_tag == ("", "")
