"""Every path that a client uses finds its endpoint, in its own dialect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.server.paths import find_endpoint, find_error_dialect


@pytest.mark.parametrize(
    ("path", "name", "dialect", "model"),
    [
        ("/v1/messages", "turn", "anthropic", ""),
        ("/v1/messages/", "turn", "anthropic", ""),
        ("/v1/v1/messages", "turn", "anthropic", ""),
        ("/messages", "turn", "anthropic", ""),
        ("/v1/messages/count_tokens", "count", "anthropic", ""),
        ("/v1/chat/completions", "turn", "openai_chat", ""),
        ("/chat/completions", "turn", "openai_chat", ""),
        ("/v1/responses", "turn", "openai_responses", ""),
        ("/v1/responses/input_tokens", "count", "openai_responses", ""),
        ("/v1beta/models/gemini-3:generateContent", "turn", "gemini", "gemini-3"),
        ("/v1/models/gemini-3:generateContent", "turn", "gemini", "gemini-3"),
        ("/v1beta/models/gemini-3:streamGenerateContent", "stream", "gemini", "gemini-3"),
        ("/v1beta/models/local/a:b:streamGenerateContent", "stream", "gemini", "local/a:b"),
        ("/v1beta/tunedModels/mine:countTokens", "count", "gemini", "mine"),
        (
            "/v1/projects/p/locations/l/publishers/google/models/gemini-3:generateContent",
            "turn",
            "gemini",
            "gemini-3",
        ),
        ("/models/gemini-3:generateContent", "turn", "gemini", "gemini-3"),
        ("/models/local/a:b:streamGenerateContent", "stream", "gemini", "local/a:b"),
        ("/models/gemini-3:countTokens", "count", "gemini", "gemini-3"),
        ("/projects/p/locations/l/publishers/google/models/g:generateContent", "turn", "gemini", "g"),
        ("/models", "models", "openai_chat", ""),
        ("/models/local/a", "model", "openai_chat", "local/a"),
        ("/v1/models", "models", "openai_chat", ""),
        ("/v1/models/local/a", "model", "openai_chat", "local/a"),
        ("/v1beta/models", "models", "gemini", ""),
        ("/v1beta/models/gemini-3", "model", "gemini", "gemini-3"),
        ("/", "health", "openai_chat", ""),
        ("/health", "health", "openai_chat", ""),
        ("/api/hello", "health", "openai_chat", ""),
    ],
)
@pytest.mark.rule("R1", "R2", "R3", "R115", "F19")
def test_a_path_is_an_endpoint(path: str, name: str, dialect: str, model: str) -> None:
    endpoint = find_endpoint(path)
    assert endpoint is not None
    assert (endpoint.name, endpoint.dialect, endpoint.model) == (name, dialect, model)


@pytest.mark.parametrize(
    "path",
    ["/v2/messages", "/v1/messages/batches", "/v1/v1/v1/messages", "/v1beta/models/x:embedContent2", "//"],
)
def test_other_paths_are_none_or_no_turn(path: str) -> None:
    endpoint = find_endpoint(path)
    assert endpoint is None or endpoint.name in ("health", "model")


def test_a_name_is_taken_as_the_server_decoded_it() -> None:
    endpoint = find_endpoint("/v1/models/100%25")
    assert endpoint is not None
    assert endpoint.model == "100%25"


@pytest.mark.rule("R115")
@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/messages/batches", "anthropic"),
        ("/v1/responses/resp_1", "openai_responses"),
        ("/v1beta/files", "gemini"),
        ("/v1/models/x:embedContent", "gemini"),
        ("/v1/embeddings", "openai_chat"),
        ("/favicon.ico", "openai_chat"),
    ],
)
def test_an_unknown_path_is_answered_in_the_dialect_it_resembles(path: str, dialect: str) -> None:
    assert find_error_dialect(path) == dialect


@given(path=st.text("/v1betamodelscg:._-", max_size=300).map(lambda tail: f"/{tail}"))
def test_any_path_is_judged(path: str) -> None:
    endpoint = find_endpoint(path)
    assert endpoint is None or endpoint.methods
    assert find_error_dialect(path)
