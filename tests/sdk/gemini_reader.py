"""Google's published client as a reader of our streams, in this process and without a network."""

import httpx2
from google import genai
from google.genai import types


def accumulate(stream: bytes) -> dict[str, object]:
    """Everything an application gets from the SDK, chunk by chunk, put together.

    What the SDK refuses it raises, as it would in the application.
    """

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=stream, headers={"content-type": "text/event-stream"})

    client = genai.Client(
        api_key="sk-test",
        http_options=types.HttpOptions(httpx_client=httpx2.Client(transport=httpx2.MockTransport(answer))),
    )
    gathered = _Gathered()
    with client:
        for chunk in client.models.generate_content_stream(model="gemini-test", contents="Hello"):
            gathered.add(chunk)
    return gathered.reply


class _Gathered:
    def __init__(self) -> None:
        self.reply: dict[str, object] = {}
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[dict[str, object]] = []
        self._signatures: list[bytes] = []
        self._media: list[tuple[str | None, bytes | None]] = []

    def add(self, chunk: types.GenerateContentResponse) -> None:
        reply = self.reply
        reply["model"] = chunk.model_version
        reply["id"] = chunk.response_id
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            reply["block_reason"] = chunk.prompt_feedback.block_reason.value
        if chunk.usage_metadata is not None:
            reply["usage"] = chunk.usage_metadata.model_dump(exclude_none=True, mode="json")
        for candidate in chunk.candidates or []:
            if candidate.finish_reason is not None:
                reply["finish_reason"] = candidate.finish_reason.value
            if candidate.finish_message is not None:
                reply["finish_message"] = candidate.finish_message
            if candidate.grounding_metadata is not None:
                reply["grounding"] = candidate.grounding_metadata.model_dump(exclude_none=True, mode="json")
            for part in (candidate.content.parts if candidate.content else None) or []:
                self._add_part(part)
        reply["text"] = "".join(self._text)
        reply["thoughts"] = "".join(self._thoughts)
        reply["calls"] = self._calls
        reply["signatures"] = self._signatures
        reply["media"] = self._media

    def _add_part(self, part: types.Part) -> None:
        if part.text is not None:
            (self._thoughts if part.thought else self._text).append(part.text)
        if part.function_call is not None:
            call = part.function_call
            self._calls.append({"id": call.id, "name": call.name, "args": call.args})
        if part.inline_data is not None:
            self._media.append((part.inline_data.mime_type, part.inline_data.data))
        if part.thought_signature is not None:
            self._signatures.append(part.thought_signature)
