"""Anthropic's published client as a reader of our streams, in this process and without a network."""

import anthropic
import httpx2
from anthropic.types import Message


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
    told: dict[str, object] = message.to_dict(mode="json", warnings=False)
    Message.model_validate(told)
    return told
