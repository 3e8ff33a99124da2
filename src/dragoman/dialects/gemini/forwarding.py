"""Rules for forwarding a stream of the Gemini API."""

from collections.abc import Mapping
from typing import ClassVar

from dragoman.dialects.forwarding import ContentName, Forwarding, Members, RequestPeek
from dragoman.wire.sse import Frame, SseReader, split_plain_events, write_frame

_DONE = b"[DONE]"

_MEDIA = (b'"inlineData"', b'"inline_data"', b'"fileData"', b'"file_data"')


class GeminiForwarding(Forwarding):
    """The model stands in the address, not in the body. Every chunk may hold the usage, and most do."""

    reply_mark = b'"modelVersion"'
    model_member = "modelVersion"
    #: The prefix of our envelopes in base64, because a signature must be base64.
    envelope_mark = b"ZGdtMS"
    #: Its own tools, such as `google_search`.
    renames_tools = True
    content_words: ClassVar[Mapping[ContentName, tuple[bytes, ...]]] = {
        "images": _MEDIA,
        # With a capital letter or after an underscore: googleSearch, enterprise_web_search and others.
        "web_search": (b"oogleSearch", b"google_search", b"ebSearch", b"eb_search", b"SEARCH_WEB"),
        "uncounted": _MEDIA,
    }

    def peek(self, members: Members) -> RequestPeek | None:
        return None

    def rename_model(self, body: bytes, model: str, members: Members | None = None) -> bytes:
        return body

    def select(self, events: bytes, *, hides_usage: bool) -> bytes:
        """Only `data: {json}` and a blank line: Google's SDKs fail on anything else."""
        plain = events.replace(b"\r\n", b"\n") if b"\r" in events else events
        plain_events = split_plain_events(plain)
        if b"data: [DONE]" not in plain and plain_events and all(map(_has_chunk, plain_events)):
            return events
        payloads = [frame.data.strip() for frame in SseReader().feed(plain)]
        return b"".join(
            [write_frame(data) for data in payloads if data[:1] in (b"{", b"[") and data != _DONE]
        )


def _has_chunk(frame: Frame) -> bool:
    return frame.data[:1] in (b"{", b"[")


FORWARDING = GeminiForwarding()
