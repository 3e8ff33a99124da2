"""OpenAI's published client as a reader of our Chat streams, in this process and without a network."""

import httpx2
import openai
from openai.types.chat import ChatCompletionChunk


def _client(stream: bytes) -> openai.OpenAI:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://localhost/v1", http_client=http, max_retries=0)


def accumulate(stream: bytes) -> dict[str, object]:
    """The completion that the streaming helper accumulates.

    Raises whatever the client raises, but for the two finish reasons that the helper takes for errors:
    then what it knows is the answer.
    """
    with (
        _client(stream) as client,
        client.chat.completions.stream(model="any", messages=[{"role": "user", "content": "Hi."}]) as events,
    ):
        for _ in events:
            pass
        try:
            completion = events.get_final_completion()
        except openai.LengthFinishReasonError as error:
            return error.completion.to_dict(mode="json", warnings=False)
        except openai.ContentFilterFinishReasonError:
            return events.current_completion_snapshot.to_dict(mode="json", warnings=False)
    return completion.to_dict(mode="json", warnings=False)


def chunks(stream: bytes) -> list[dict[str, object]]:
    """Every chunk that a plain streaming call hands out."""
    with _client(stream) as client:
        return [
            chunk.to_dict(mode="json", warnings=False)
            for chunk in client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "Hi."}], stream=True
            )
        ]


def validate(chunk: dict[str, object]) -> None:
    """Raise for a chunk that is not of the declared type, which the client itself does not look at."""
    ChatCompletionChunk.model_validate(chunk)
