"""OpenAI's published client as a reader of our Responses streams, in this process and without a network."""

import httpx2
import openai
from openai.types.responses import Response

#: What the client adds to items and parts for its own structured outputs.
PARSED = ("parsed", "parsed_arguments")


def _client(stream: bytes) -> openai.OpenAI:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://localhost", http_client=http, max_retries=0)


def accumulate(stream: bytes) -> dict[str, object]:
    """The response that the client's helper accumulates.

    Raises whatever the client raises: also when no `response.completed` came, as for replies that failed or
    stopped short.
    """
    with _client(stream) as client, client.responses.stream(model="any", input="Hi.") as events:
        for _ in events:
            pass
        response = events.get_final_response()
    plain = _plain(response.to_dict(mode="json", warnings=False))
    assert isinstance(plain, dict)
    return plain


def events_of(stream: bytes) -> list[dict[str, object]]:
    """The events that the client delivers, each checked against the declared types.

    Raises whatever the client raises. The client itself would only notice a wrong type when an application
    reads it.
    """
    delivered: list[dict[str, object]] = []
    with _client(stream) as client:
        for event in client.responses.create(model="any", input="Hi.", stream=True):
            plain = event.to_dict(mode="json", warnings=False)
            # Codex knows more codes of failed responses than the client declares.
            if event.type != "response.failed":
                type(event).model_validate(plain)
            delivered.append(plain)
    return delivered


def validate(response: dict[str, object]) -> None:
    """Raises if the response is not of the declared type."""
    Response.model_validate(response)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if name not in PARSED}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
