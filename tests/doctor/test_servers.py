"""Servers on this machine are recognised by their own APIs, with the limits that they report."""

import pytest

from dragoman.config.load import load
from dragoman.doctor.server_kinds import ServerModel
from dragoman.doctor.servers import (
    create_ollama_model,
    find_server,
    find_servers,
    list_vendor_models,
)
from tests.doctor.local_servers import LLAMA_CPP, LM_STUDIO, VLLM, ollama, serving


@pytest.mark.rule("M20")
def test_ollama_reports_the_window_in_use_and_what_each_model_supports() -> None:
    with serving(ollama(loaded={"qwen3:8b": 4096})) as server:
        found = find_server(server.url)
    assert found is not None
    assert (found.kind, found.base_url) == ("ollama", f"{server.url}/v1")
    assert found.models == (
        ServerModel(name="gemma3:4b", largest_context=131_072, has_tools=False, has_images=True),
        ServerModel(name="qwen3:8b", context=4096, largest_context=40_960, has_tools=True, has_images=False),
        ServerModel(
            name="coder:latest", context=65_536, largest_context=262_144, has_tools=True, has_images=False
        ),
    )


@pytest.mark.rule("M20")
@pytest.mark.parametrize(
    ("answers", "kind", "model"),
    [
        pytest.param(
            LM_STUDIO,
            "lmstudio",
            ServerModel(
                name="qwen/qwen3-coder-30b",
                context=49_152,
                largest_context=262_144,
                has_tools=True,
                has_images=False,
            ),
            id="LM Studio",
        ),
        pytest.param(
            LLAMA_CPP,
            "llamacpp",
            ServerModel(
                name="gpt-oss-20b.gguf",
                context=16_384,
                largest_context=131_072,
                has_tools=True,
                has_images=False,
            ),
            id="llama.cpp",
        ),
        pytest.param(VLLM, "vllm", ServerModel(name="Qwen/Qwen3-8B", context=40_960), id="vLLM"),
    ],
)
def test_other_servers_are_recognised(answers: dict[str, object], kind: str, model: ServerModel) -> None:
    with serving(answers) as server:
        found = find_server(f"{server.url}/v1/")
    assert found is not None
    assert (found.kind, found.models) == (kind, (model,))


@pytest.mark.parametrize("answers", [{}, {"/v1/models": ["no list"]}, {"/api/version": "text"}])
def test_a_server_of_another_kind_is_none(answers: dict[str, object]) -> None:
    with serving(answers) as server:
        assert find_server(server.url) is None


@pytest.mark.rule("M20")
def test_the_address_of_ollama_can_come_from_its_variable() -> None:
    with serving(ollama()) as server:
        host = server.url.removeprefix("http://")
        found = find_servers({"OLLAMA_HOST": host.replace("127.0.0.1", "0.0.0.0")})  # noqa: S104 (not bound)
        assert f"{server.url}/v1" in [each.base_url for each in found]
    assert find_servers({"OLLAMA_HOST": "127.0.0.1:nonsense"}) == find_servers({})


@pytest.mark.rule("M20")
def test_ollama_creates_a_model_with_a_larger_window() -> None:
    with serving(ollama()) as server:
        name = create_ollama_model(f"{server.url}/v1", "qwen3:8b", 32_768)
        found = find_server(server.url)
        assert create_ollama_model(f"{server.url}/v1", "nosuch", 32_768) == ""
    assert name == "qwen3:8b-32k"
    assert found is not None
    created = found.find_model(name)
    assert created is not None
    assert (created.context, created.has_tools) == (32_768, True)


def test_a_vendors_models_are_listed_with_its_key() -> None:
    with serving(
        {
            "/v1/models": {"data": [{"id": "m1"}, {"id": "m2"}]},
            "/v1beta/models": {"models": [{"name": "models/g"}]},
        }
    ) as server:
        text = f"""
        [providers.openai]
        base_url = "{server.url}/v1"
        api_key = "k"
        [providers.gemini]
        base_url = "{server.url}"
        api_key = "k"
        """
        config = load(text, "", {})
        assert list_vendor_models(config.providers["openai"]) == ["m1", "m2"]
        assert list_vendor_models(config.providers["gemini"]) == ["g"]
    assert list_vendor_models(config.providers["openai"]) == []
