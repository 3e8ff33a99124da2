"""The vendors' SDKs meet the gateway's own limits, and raise what they raise for their own vendor's."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

from tests.server.keyholder import KeyHolder
from tests.server.running import config_for, running
from tests.upstream.byte_server import run

Ask = Callable[[str, str, str], None]


def ask_anthropic(url: str, key: str, model: str) -> None:
    with anthropic.Anthropic(base_url=url, api_key=key, max_retries=0) as client:
        client.messages.create(model=model, max_tokens=9, messages=[{"role": "user", "content": "hello"}])


def ask_chat(url: str, key: str, model: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])


def ask_responses(url: str, key: str, model: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        client.responses.create(model=model, input="hello")


def ask_gemini(url: str, key: str, model: str) -> None:
    options = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions(attempts=1))
    client = genai.Client(api_key=key, http_options=options)
    try:
        client.models.generate_content(model=model, contents="hello")
    finally:
        client.close()


#: Each SDK, and what it raises for an unknown key, a forbidden model, and too much.
SDKS: dict[str, tuple[Ask, tuple[type[Exception], type[Exception], type[Exception]]]] = {
    "anthropic": (
        ask_anthropic,
        (anthropic.AuthenticationError, anthropic.PermissionDeniedError, anthropic.RateLimitError),
    ),
    "openai chat": (
        ask_chat,
        (openai.AuthenticationError, openai.PermissionDeniedError, openai.RateLimitError),
    ),
    "openai responses": (
        ask_responses,
        (openai.AuthenticationError, openai.PermissionDeniedError, openai.RateLimitError),
    ),
    "google": (ask_gemini, (errors.ClientError, errors.ClientError, errors.ClientError)),
}


@pytest.mark.parametrize("name", SDKS)
def test_every_sdk_raises_its_own_errors(name: str, tmp_path: Path) -> None:
    ask, (unknown, forbidden, limited) = SDKS[name]
    holder = KeyHolder(tmp_path / "state.db")
    slow = holder.create("slow", requests_per_minute=1, models=("any",))
    poor = holder.create("poor", tokens_per_day=1)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            url = f"http://127.0.0.1:{gateway.port}"

            async def asks(key: str, model: str = "any") -> None:
                await asyncio.to_thread(ask, url, key, model)

            with pytest.raises(unknown, match="does not know that client key"):
                await asks("dgm_wrong")
            with pytest.raises(forbidden, match="may not use the model 'other'"):
                await asks(slow, "other")
            await asks(slow)
            with pytest.raises(limited, match="1 request per minute"):
                await asks(slow)
            await asks(poor)
            with pytest.raises(limited, match="used up its budget"):
                await asks(poor)

    run(scenario)
