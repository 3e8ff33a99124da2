"""Anthropic's published client as a judge of what we write, in this process and without a network."""

from collections.abc import Iterable, Mapping

import anthropic
import httpx2
from anthropic.types import Message
from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from pydantic import TypeAdapter


def _client(stream: bytes) -> anthropic.Anthropic:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="none", base_url="http://localhost", http_client=http, max_retries=0)


def accumulate(stream: bytes) -> dict[str, object]:
    """The message that the client accumulates: content, stop reason, usage.

    Raises whatever the client raises, also for events and a final message that are not of the declared types:
    the client itself would only notice when an application reads them.
    """
    with (
        _client(stream) as client,
        client.messages.stream(
            model="any", max_tokens=1, messages=[{"role": "user", "content": "Hi."}]
        ) as events,
    ):
        for event in events:
            if event.type in ("message_start", "content_block_start", "message_delta"):
                type(event).model_validate(event.to_dict(warnings=False))
        message = events.get_final_message()
    plain: dict[str, object] = message.to_dict(mode="json", warnings=False)
    Message.model_validate(plain)
    return plain


_STREAMING = TypeAdapter(MessageCreateParamsStreaming)
_WHOLE = TypeAdapter(MessageCreateParamsNonStreaming)


def validate_request(body: Mapping[str, object]) -> None:
    """Raise if a request body is not of the type that the client declares; fields beyond it are allowed."""
    _exhaust((_STREAMING if body.get("stream") else _WHOLE).validate_python(body))


def _exhaust(value: object) -> None:
    """The client's lists are validated only while they are walked."""
    if isinstance(value, Mapping):
        for inner in value.values():
            _exhaust(inner)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _exhaust(inner)
