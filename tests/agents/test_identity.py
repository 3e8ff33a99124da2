"""The identity of a client comes from its headers, and hostile headers do no harm."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents import AGENTS, ClientIdentity, identify_client
from dragoman.agents.identity import MAX_LENGTH
from dragoman.records.turns import KEPT_HEADERS

RECORDINGS = sorted(Path(__file__).parents[1].joinpath("recordings").glob("*/request-*.json"))

#: The agent behind the `client` of a recording.
AGENT_OF_CLIENT = {
    "claude-code": "claude-code",
    "claude-agent-sdk": "claude-code",
    "codex": "codex",
    "gemini-cli": "gemini-cli",
    "opencode": "opencode",
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "openai-agents": "Agents",
    "google-genai": "google-genai-sdk",
}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_recorded_client_is_recognised(path: Path) -> None:
    recording = msgspec.json.decode(path.read_bytes())
    client, _, version = recording["client"].partition(" ")
    identity = identify_client(recording["headers"])
    assert identity.agent == AGENT_OF_CLIENT[client]
    if client != "claude-agent-sdk":
        # The SDK starts a Claude Code, whose version it sends.
        assert identity.version == version
    assert identity.is_sub_agent == (path.stem == "request-claude-code-subagent")
    if identity.agent in AGENTS and AGENTS[identity.agent].session:
        assert identity.session


def test_a_codex_sub_agent_is_recognised_by_its_turn_metadata() -> None:
    headers = {"user-agent": "codex_exec/0.166.0 (Linux)", "session-id": "s"}
    main = {**headers, "x-codex-turn-metadata": '{"agent_name":"/main"}'}
    sub = {**headers, "x-codex-turn-metadata": '{"agent_name":"/main/reviewer"}'}
    assert not identify_client(main).is_sub_agent
    assert identify_client(sub).sub_agent == "/main/reviewer"


def test_a_session_of_opencode_with_a_parent_is_a_sub_agent_of_it() -> None:
    headers = {"user-agent": "opencode/1.18.33", "x-session-affinity": "ses_2", "x-session-id": "ses_2"}
    assert not identify_client(headers).is_sub_agent
    identity = identify_client({**headers, "x-parent-session-id": "ses_1"})
    assert (identity.session, identity.sub_agent) == ("ses_1", "ses_2")


@pytest.mark.parametrize("agent", AGENTS)
def test_the_headers_of_an_identity_are_recorded(agent: str) -> None:
    """`dragoman explain` decides by the headers of a record."""
    named = {*AGENTS[agent].session, *filter(None, [AGENTS[agent].parent_session])}
    assert named <= KEPT_HEADERS


def test_an_unknown_client_keeps_its_product_and_any_session_header() -> None:
    identity = identify_client({"user-agent": "my-app/1.2 (x)", "x-session-id": "s1"})
    assert identity == ClientIdentity(agent="my-app", version="1.2", session="s1")


def test_a_request_without_headers_has_an_empty_identity() -> None:
    assert identify_client({}) == ClientIdentity()


NAMES = st.sampled_from(
    ["user-agent", "session-id", "x-claude-code-agent-id", "x-codex-turn-metadata", "x-session-id"]
)


@given(st.dictionaries(NAMES, st.text(max_size=300)))
def test_hostile_headers_give_bounded_values(headers: dict[str, str]) -> None:
    identity = identify_client(headers)
    assert all(len(value) <= MAX_LENGTH for value in msgspec.structs.astuple(identity))
