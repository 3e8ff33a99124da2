"""The reply writer and the request check of every vendor, by dialect, and how each frames its streams."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from tests.e2e.upstream.checks import anthropic as anthropic_check
from tests.e2e.upstream.checks import chat as chat_check
from tests.e2e.upstream.checks import gemini as gemini_check
from tests.e2e.upstream.checks import responses as responses_check
from tests.e2e.upstream.checks.rules import Checked
from tests.e2e.upstream.reply_writers import anthropic, chat, gemini, responses
from tests.e2e.upstream.reply_writers.pieces import Json, Reply, as_json
from tests.e2e.upstream.vault import Vault


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    check: Callable[[Json, Mapping[str, str], Vault], Checked]
    whole: Callable[[Reply], Json]
    frames: Callable[[Json, Json], Iterator[Json]]
    kind: Callable[[Json], str]
    error: Callable[[int, str], Json]
    broken: Callable[[str, list[Json]], list[Json]]
    interleaved: Callable[[list[Json]], list[Json]] | None = None
    names_events: bool = False
    last_line: bytes = b""

    def framed(self, frame: Json) -> bytes:
        name = f"event: {frame['type']}\n" if self.names_events else ""
        return f"{name}data: {as_json(frame)}\n\n".encode()


VENDORS = {
    "anthropic": Vendor(
        check=anthropic_check.check,
        whole=anthropic.whole,
        frames=anthropic.frames,
        kind=anthropic.kind,
        error=anthropic.error,
        broken=anthropic.broken,
        names_events=True,
    ),
    "openai_chat": Vendor(
        check=chat_check.check,
        whole=chat.whole,
        frames=chat.frames,
        kind=chat.kind,
        error=chat.error,
        broken=chat.broken,
        interleaved=chat.interleaved,
        last_line=b"data: [DONE]\n\n",
    ),
    "openai_responses": Vendor(
        check=responses_check.check,
        whole=responses.whole,
        frames=responses.frames,
        kind=responses.kind,
        error=chat.error,
        broken=responses.broken,
        names_events=True,
    ),
    "gemini": Vendor(
        check=gemini_check.check,
        whole=gemini.whole,
        frames=gemini.frames,
        kind=gemini.kind,
        error=gemini.error,
        broken=gemini.broken,
    ),
}
DIALECTS = tuple(VENDORS)
