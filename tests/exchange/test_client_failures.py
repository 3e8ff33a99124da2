"""The failures of providers as the person behind an agent gets them: target, address, next step."""

import pytest

from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Secret
from dragoman.dialects.registry import DIALECTS, dialect_named
from dragoman.exchange.client_failure import build_client_failure
from dragoman.exchange.sender import advise_retry
from dragoman.hub.errors import STATUS_OF_KIND, Failure, FailureKind

PROVIDER = Provider(
    name="up", dialect="openai_chat", base_url="http://me:secret@host:1/v1", keys=(Secret("k", "UP_KEY"),)
)
TARGET = TargetName("up", "model-1")
#: Beginnings of the user agents that the agents send, and the APIs that they use.
AGENTS = [
    ("claude-cli/2.1.325 (external, cli)", "anthropic"),
    ("codex_exec/0.166.0 (Debian)", "openai_responses"),
    ("codex_cli_rs/0.166.0", "openai_responses"),
    ("GeminiCLI/0.61.0/gemini-3-pro (linux; x64)", "gemini"),
    ("opencode/1.18.33 ai-sdk/provider-utils", "openai_chat"),
    ("python-requests/2", "openai_chat"),
]


def shown(failure: Failure, agent: str, dialect: str) -> tuple[int, str, dict[str, str]]:
    """The status, the body and the retry headers that a client gets."""
    row = dialect_named(dialect)
    failure, headers = advise_retry(failure, row, agent)
    return row.error_status(failure), str(row.write_error(failure)), headers


@pytest.mark.rule("M8")
@pytest.mark.parametrize(("agent", "dialect"), AGENTS)
@pytest.mark.parametrize("kind", ["authentication", "permission"])
def test_a_refused_key_is_never_a_question_to_log_in(kind: FailureKind, agent: str, dialect: str) -> None:
    failure = build_client_failure(Failure(kind=kind, message="bad key"), PROVIDER, TARGET)
    status, body, headers = shown(failure, agent, dialect)
    assert status not in (401, 403)
    assert headers["x-should-retry"] == "false"
    assert "bad key (up/model-1 at http://host:1/v1; check the variable UP_KEY of the gateway)" in body


@pytest.mark.rule("M8")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_is_no_agent_gets_a_status_of_a_gateway(dialect: str) -> None:
    failure = build_client_failure(Failure(kind="authentication", message="x"), PROVIDER, TARGET)
    assert shown(failure, "app/1", dialect)[0] in (502, 503)


@pytest.mark.rule("M7")
@pytest.mark.parametrize(("agent", "dialect"), AGENTS)
def test_a_provider_that_is_down_is_not_at_capacity(agent: str, dialect: str) -> None:
    status, body, headers = shown(Failure(kind="unreachable", message="down at x"), agent, dialect)
    # Codex reports a 503 as "at capacity"; Codex, Gemini CLI and OpenCode repeat after every 5xx.
    expected = {"claude": (502,), "codex_": (400,), "Gemini": (400,), "openco": (400,), "python": (502,)}
    assert status in expected[agent[:6]]
    assert "server_is_overloaded" not in body
    assert "down at x" in body
    assert headers["x-should-retry"] == "false"


@pytest.mark.rule("M10")
@pytest.mark.parametrize("kind", sorted(set(STATUS_OF_KIND) - {"context_overflow", "cancelled"}))
def test_every_failure_names_its_target(kind: FailureKind) -> None:
    failure = build_client_failure(Failure(kind=kind, message="m"), PROVIDER, TARGET)
    is_built_by_upstream = kind in ("unreachable", "misconfigured")
    assert is_built_by_upstream or "(up/model-1 at http://host:1/v1" in failure.message
    assert failure.message.startswith("m")


@pytest.mark.rule("M10")
def test_the_numbers_of_an_overflow_stay_readable() -> None:
    """Claude Code reads them: a model's name has numbers, too."""
    failure = Failure(kind="context_overflow", message="maximum context length is 10 tokens")
    assert build_client_failure(failure, PROVIDER, TARGET) == failure


def test_a_failure_of_a_session_stays_the_clients_own() -> None:
    failure = Failure(kind="permission", status=403, code="permission_denied", message="declare them")
    assert build_client_failure(failure, PROVIDER, TARGET) == failure


@pytest.mark.rule("M11")
def test_claude_code_shows_the_list_of_models() -> None:
    failure = Failure(kind="not_found", status=404, message="there is no model 'x' here; there are: a, b")
    status, body, _ = shown(failure, AGENTS[0][0], "anthropic")
    # For a 404 it shows a text of its own, and after a 400 it tries again without parts of the request.
    assert status == 424
    assert "there are: a, b" in body
    assert shown(failure, "anthropic-sdk/1", "anthropic")[0] == 404
