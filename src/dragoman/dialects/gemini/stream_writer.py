"""Writes a reply for Gemini clients: `data: {json}` frames and nothing else, neither names nor comments.

Text and thoughts go out as they come; a call goes out whole when it closes, because its arguments are an
object. Seals of other vendors wait for the next call: its signature is the one field that every client
brings back, so an envelope in it takes the thoughts along that came before. What still waits at the
end goes out on an empty text.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.dialects.base import Audience, Json
from dragoman.dialects.gemini.calls import NO_ARGUMENTS, NO_ID
from dragoman.dialects.gemini.errors import write_error
from dragoman.dialects.gemini.grounding import Grounding, SaidText
from dragoman.dialects.gemini.part_writer import write_part
from dragoman.dialects.gemini.reasons import finish_reason, write_usage
from dragoman.dialects.gemini.signature import BARE, ISSUER, UNSEALED, encode_envelope, stands_alone
from dragoman.hub.content import (
    Citation,
    HostedCall,
    HostedResult,
    Reasoning,
    Refusal,
    ReplyBlock,
    Text,
    ToolCall,
)
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)
from dragoman.hub.seal import Seal, SealedItem
from dragoman.hub.usage import Usage
from dragoman.wire.partial_json import parse_object, wrap_as_object
from dragoman.wire.sse import Frame, Frames, join_frames

_encode = msgspec.json.Encoder().encode

_TEXT = b'{"candidates":[{"content":{"parts":[{"text":%b}],"role":"model"},"index":0}]%b}'
_THOUGHT = _TEXT.replace(b"%b}],", b'%b,"thought":true}],')

#: Line ends to clients that split decoded text: escaped, they are part of a JSON string to everybody.
_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))

#: What separates the parts of a thought when they become one text.
_BETWEEN_PARTS = "\n\n"


def line_safe(data: bytes) -> bytes:
    """JSON text that is one line to every client."""
    if data.isascii():
        return data
    for raw, escaped in _LINE_ENDS:
        data = data.replace(raw, escaped)
    return data


class _Open:
    """The block that is being written."""

    __slots__ = ("block", "citations", "parts", "pieces", "said", "seal")

    def __init__(self, block: ReplyBlock, *, may_be_cited: bool) -> None:
        self.block = block
        self.said = SaidText(keep=may_be_cited)
        self.seal: Seal | None = getattr(block, "seal", None)
        self.pieces: list[str] = []
        self.parts: dict[int, list[str]] = {}
        self.citations: list[Citation] = []


class GeminiStreamWriter:
    """Events in, bytes out."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._native = audience.upstream == ISSUER
        request = audience.request
        wish = request.reasoning if request else None
        #: Gemini shows thoughts only to those who asked; unknown clients may have.
        self._shows_thoughts = self._native or request is None or bool(wish and wish.show)
        #: Tools of the server give citations, and those need the words that they cite.
        self._searches = request is not None and any(tool.kind == "hosted" for tool in request.tools)
        self._suffix = b""
        self._reply: Json = {}
        self._open: _Open | None = None
        self._waiting: list[SealedItem] = []
        self._usage: Usage | None = None
        self._grounding = Grounding()
        #: How many parts the client has. It joins neighbours of one kind: this is the kind that can still
        #: grow, and how many bytes the text has that earlier blocks said.
        self._parts = 0
        self._joining = ""
        self._joined = 0
        self._calls = 0
        self._visible = False

    def write(self, event: ReplyEvent) -> Frames:
        return _WRITERS[type(event)](self, event)

    def _start(self, event: ReplyStarted) -> Frames:
        model = self._audience.model or event.model
        if model:
            self._reply["modelVersion"] = model
        self._reply["responseId"] = (
            event.id if self._native and event.id else self._audience.ids.adopt("", event.id)
        )
        self._suffix = b"," + line_safe(_encode(self._reply))[1:-1]
        return ()

    def _frame(self, payload: Json) -> Frames:
        return (Frame("", line_safe(_encode(payload))),)

    def _join(self, kind: str) -> None:
        if self._joining != kind:
            self._joining = kind
            self._joined = 0
            self._parts += 1

    def _part(self, part: Json) -> Frames:
        return self._frame(
            {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], **self._reply}
        )

    def _open_block(self, event: BlockOpened) -> Frames:
        block = event.block
        if isinstance(block, HostedCall):
            self._searches = True
        self._open = _Open(block, may_be_cited=self._searches and not self._native)
        match block:
            case Text() | Refusal():
                return self._say(self._open, block.text)
            case Reasoning():
                return join_frames(
                    [
                        self._think(self._open, text, n - len(block.parts))
                        for n, text in enumerate(block.parts)
                    ]
                )
            case ToolCall():
                self._open.pieces.append(block.arguments)
                return ()
            case HostedCall() | HostedResult() if not self._native and block.tool == "web_search":
                return self._search(block)
            case _:
                part = write_part(block, native=self._native, losses=self._audience.losses)
                if part is None:
                    return ()
                self._count_part()
                return self._part(part)

    def _count_part(self) -> None:
        """One more part that joins no other, and that can be seen."""
        self._joining = ""
        self._parts += 1
        self._visible = True

    def _search(self, block: HostedCall | HostedResult) -> Frames:
        """Gemini tells a search by its queries, and what it gave by the citations alone."""
        arguments = parse_object(block.arguments) if isinstance(block, HostedCall) else None
        query = arguments.get("query") if arguments else None
        if isinstance(query, str):
            self._grounding.asked(query)
        else:
            self._audience.losses.add(
                block.at, "Gemini tells of a search only what was asked and what is cited"
            )
        return ()

    def _text(self, event: TextDelta) -> Frames:
        return self._say(self._open, event.text) if self._open else ()

    def _say(self, block: _Open, text: str) -> Frames:
        if not text:
            return ()
        self._visible = True
        self._join("text")
        block.said.add(text)
        return (Frame("", _TEXT % (line_safe(_encode(text)), self._suffix)),)

    def _reason(self, event: ReasoningDelta) -> Frames:
        return self._think(self._open, event.text, event.part) if self._open else ()

    def _think(self, block: _Open, text: str, part: int) -> Frames:
        if not text:
            return ()
        begins = part not in block.parts
        said = _BETWEEN_PARTS + text if begins and block.parts else text
        if begins:
            block.parts[part] = []
        block.parts[part].append(text)
        if not self._shows_thoughts:
            return ()
        self._join("thought")
        return (Frame("", _THOUGHT % (line_safe(_encode(said)), self._suffix)),)

    def _arguments(self, event: ArgumentsDelta) -> Frames:
        if self._open:
            self._open.pieces.append(event.text)
        return ()

    def _seal(self, event: SealAttached) -> Frames:
        if self._open:
            self._open.seal = event.seal
        return ()

    def _cite(self, event: CitationAdded) -> Frames:
        if self._open and not self._native:
            self._open.citations.append(event.citation)
        return ()

    def _close_block(self, event: BlockClosed) -> Frames:
        closing, self._open = self._open, None
        if closing is None:
            return ()
        block = closing.block
        if isinstance(block, ToolCall):
            return self._call(closing, block)
        if isinstance(block, Reasoning):
            return self._close_said(
                closing, event, thought=bool(closing.parts), carried=self._carried(closing, block)
            )
        if isinstance(block, Text):
            seal = closing.seal
            carried = SealedItem(kind="text", seal=seal) if seal and not stands_alone(seal) else None
            self._ground(closing)
            return self._close_said(closing, event, thought=False, carried=carried)
        if isinstance(block, Refusal):
            return self._close_said(closing, event, thought=False, carried=None)
        return ()

    def _ground(self, closing: _Open) -> None:
        """Cite by the place in the text that the client has after joining."""
        if closing.citations and closing.said.size:
            self._grounding.cite(self._parts - 1, self._joined, closing.said, closing.citations)
        self._joined += closing.said.size

    def _carried(self, closing: _Open, block: Reasoning) -> SealedItem | None:
        """What must travel on the next call: a foreign seal with its thought, or a thought without one."""
        seal = closing.seal
        if self._native if seal is None else stands_alone(seal):
            return None
        parts = tuple("".join(closing.parts[part]) for part in sorted(closing.parts))
        if seal is None and not parts:
            return None
        return SealedItem(kind="reasoning", seal=seal or UNSEALED, parts=parts, redacted=block.redacted)

    def _close_said(
        self, closing: _Open, event: BlockClosed, *, thought: bool, carried: SealedItem | None
    ) -> Frames:
        if carried is not None:
            self._waiting.append(carried)
        part: Json = {}
        if closing.seal is not None and stands_alone(closing.seal):
            part["thoughtSignature"] = closing.seal.value
        if self._native:
            part |= closing.block.extras | event.extras
        if not part:
            return ()
        if not self._joining:
            self._parts += 1
        self._joining = ""
        if thought:
            part["thought"] = True
        return self._part(part if closing.block.form == BARE and self._native else {"text": "", **part})

    def _call(self, closing: _Open, block: ToolCall) -> Frames:
        text = "".join(closing.pieces)
        arguments: Json | None = {"input": text} if block.kind == "custom" else parse_object(text)
        if arguments is None:
            self._audience.losses.add(block.at, "arguments that are no JSON object were wrapped as text")
            arguments = wrap_as_object(text)
        call: Json = {"name": block.name, "args": arguments, "id": block.id}
        part: Json = {"functionCall": call}
        if self._native:
            form = block.form.split()
            if NO_ID in form:
                del call["id"]
            if NO_ARGUMENTS in form:
                del call["args"]
            extras = block.extras
            inside = extras.get("functionCall")
            call |= inside if isinstance(inside, dict) else {}
            part = {**extras, **part}
        signature = self._signature(closing.seal, block)
        if signature:
            part["thoughtSignature"] = signature
        self._calls += 1
        self._count_part()
        return self._part(part)

    def _signature(self, seal: Seal | None, call: ToolCall) -> str:
        items, self._waiting = self._waiting, []
        if seal is not None and (items or not stands_alone(seal)):
            items.append(SealedItem(kind="call", seal=seal, call_id=call.id))
        if items:
            return encode_envelope(items)
        return seal.value if seal is not None else ""

    def _count(self, event: UsageReported) -> Frames:
        self._usage = self._usage.merge(event.usage) if self._usage else event.usage
        return ()

    def _finish(self, event: ReplyFinished) -> Frames:
        extras = event.extras if self._native else {}
        payload: Json = {}
        if not (extras.get("blocked") and not self._parts):
            payload["candidates"] = [self._last_candidate(event, extras.get("candidate"))]
        usage = write_usage(self._usage, native=self._native) if self._usage else {}
        if usage:
            payload["usageMetadata"] = usage
        beside = extras.get("reply")
        return self._frame({**payload, **self._reply, **(beside if isinstance(beside, dict) else {})})

    def _last_candidate(self, event: ReplyFinished, beside: object) -> Json:
        candidate: Json = {}
        sealed = [item for item in self._waiting if item.seal.value]
        if sealed:
            part = {"text": "", "thoughtSignature": encode_envelope(sealed)}
            candidate["content"] = {"parts": [part], "role": "model"}
        candidate["finishReason"] = finish_reason(
            event, native=self._native, has_calls=self._calls > 0, visible=self._visible
        )
        candidate["index"] = 0
        if isinstance(beside, dict):
            told = dict(beside)
            if self._parts:
                told.pop("content", None)
            return candidate | told
        if event.explanation:
            candidate["finishMessage"] = event.explanation
        grounding = self._grounding.metadata()
        if grounding:
            candidate["groundingMetadata"] = grounding
        return candidate

    def _fail(self, event: ReplyFailed) -> Frames:
        return self._frame(write_error(event.failure))


_WRITERS: dict[type, Callable[[GeminiStreamWriter, Any], Frames]] = {
    TextDelta: GeminiStreamWriter._text,
    ReasoningDelta: GeminiStreamWriter._reason,
    ArgumentsDelta: GeminiStreamWriter._arguments,
    BlockOpened: GeminiStreamWriter._open_block,
    BlockClosed: GeminiStreamWriter._close_block,
    SealAttached: GeminiStreamWriter._seal,
    CitationAdded: GeminiStreamWriter._cite,
    UsageReported: GeminiStreamWriter._count,
    ReplyStarted: GeminiStreamWriter._start,
    ReplyFinished: GeminiStreamWriter._finish,
    ReplyFailed: GeminiStreamWriter._fail,
}
