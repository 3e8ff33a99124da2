"""Writes a reply as chunks for Gemini clients: frames without event names.

Text and thoughts are written as they arrive. A call is written whole when it closes, because its arguments
are an object. Seals of other vendors wait for the next call: the signature of a call is the one field that
every client sends back, so an envelope in it also holds the thoughts before the call. Seals that still wait
at the end are written on an empty text.
"""

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import msgspec

from dragoman.dialects.gemini.citations import GROUNDED, GroundingBuilder
from dragoman.dialects.gemini.content_writer import write_part
from dragoman.dialects.gemini.errors import write_error
from dragoman.dialects.gemini.logprobs import RESULT, write_tokens
from dragoman.dialects.gemini.names import NAME, NO_ARGUMENTS, NO_ID
from dragoman.dialects.gemini.reasoning import BARE, BARE_EXTRA, UNSEALED, encode_envelope, is_native
from dragoman.dialects.gemini.stop_reasons import choose_finish_reason
from dragoman.dialects.gemini.stream_blocks import OpenPart, escape_line_ends
from dragoman.dialects.gemini.usage import write_usage
from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.pings import NO_PING
from dragoman.dialects.search_options import find_queries
from dragoman.hub.blocks import (
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    TokenLogprob,
    ToolCall,
)
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    DeltaRun,
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
from dragoman.wire.sse import Frame, FrameRun, Frames, join_frames

_encoder = msgspec.json.Encoder()
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines

_HEAD = b'{"candidates":[{"content":{"parts":[{"text":'
_TEXT_TAIL = b'}],"role":"model"},"index":0}]'
_THOUGHT_TAIL = b',"thought":true' + _TEXT_TAIL

#: The separator between the parts of a thought in one text.
_BETWEEN_PARTS = "\n\n"


class GeminiStreamWriter:
    """Turns the events of one reply into frames."""

    ping = NO_PING
    #: Offsets of citations are in bytes, and some characters are escaped.
    counts_only_ascii = True

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._native = context.upstream == NAME
        request = context.request
        reasoning = request.reasoning if request else None
        #: Gemini shows thoughts only if the request asked for them; an unknown request may have.
        self._shows_thoughts = self._native or request is None or bool(reasoning and reasoning.show)
        #: Hosted tools give citations, and citations need the cited text.
        self._searches = request is not None and any(tool.kind == "hosted" for tool in request.tools)
        #: What follows the candidates of a chunk.
        self._suffix = b"}"
        self._text_tail = _TEXT_TAIL + self._suffix
        self._reply: Json = {}
        self._open: OpenPart | None = None
        self._waiting: list[SealedItem] = []
        self._usage: Usage | None = None
        self._grounding = GroundingBuilder()
        self._logprobs: list[TokenLogprob] = []
        self._shows_logprobs = not self._native and (request is None or bool(request.logprobs))
        #: The number of parts that the client has. It joins neighbouring parts of one kind: `_joining` is the
        #: kind of the last part, and `_joined` the number of bytes that earlier blocks wrote to it.
        self._parts = 0
        self._joining = ""
        self._joined = 0
        self._calls = 0
        self._visible = False

    def write(self, event: ReplyEvent) -> Frames:
        return _HANDLERS[type(event)](self, event)

    def write_run(self, run: DeltaRun) -> Sequence[Frame | FrameRun]:
        opened, texts = self._open, run.texts
        if opened is None:
            return ()
        if run.kind is ArgumentsDelta:
            opened.pieces += texts
            return ()
        if run.kind is TextDelta and self._joining == "text":
            opened.text.add("".join(texts))
            tail = self._text_tail
        elif run.kind is ReasoningDelta and self._joining == "thought" and 0 in opened.parts:
            opened.parts[0] += texts
            tail = _THOUGHT_TAIL + self._suffix
        else:
            return join_frames(map(self.write, run.expand()))
        return (FrameRun("", _HEAD, escape_line_ends(_encode_lines(texts)), tail),)

    @property
    def count_text(self) -> Callable[[int], None] | None:
        """Counts text deltas that were written with the bytes around the last one; None if texts are kept."""
        opened = self._open
        return opened.text.count_ascii if opened and not opened.text.is_kept else None

    def _on_reply_started(self, event: ReplyStarted) -> Frames:
        model = self._context.model or event.model
        if model:
            self._reply["modelVersion"] = model
        self._reply["responseId"] = (
            event.id if self._native and event.id else self._context.ids.adopt("", event.id)
        )
        self._suffix = b"," + escape_line_ends(_encode(self._reply))[1:]
        self._text_tail = _TEXT_TAIL + self._suffix
        return ()

    def _build_frame(self, payload: Json) -> Frames:
        return (Frame("", escape_line_ends(_encode(payload))),)

    def _join(self, kind: str) -> None:
        """Begin the part of this kind that later texts join."""
        self._joining = kind
        self._joined = 0
        self._parts += 1

    def _write_part(self, part: Json) -> Frames:
        return self._build_frame(
            {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], **self._reply}
        )

    def _on_block_opened(self, event: BlockOpened) -> Frames:
        block = event.block
        if isinstance(block, HostedCall):
            self._searches = True
        self._open = OpenPart(block, may_be_cited=self._searches and not self._native)
        match block:
            case Text() | Refusal():
                return self._write_text(self._open, block.text)
            case Reasoning():
                return join_frames(
                    [
                        self._write_thought(self._open, text, n - len(block.parts))
                        for n, text in enumerate(block.parts)
                    ]
                )
            case ToolCall():
                self._open.pieces.append(block.arguments)
                return ()
            case HostedCall() if self._native and block.form == GROUNDED:
                # The metadata at the end of the reply has its query.
                return ()
            case HostedCall() | HostedResult() if block.tool == "web_search" and not (
                self._native and block.extras
            ):
                return self._add_query(block)
            case Media() | HostedCall() | HostedResult() | Opaque():
                part = write_part(block, native=self._native, losses=self._context.losses)
                if part is None:
                    return ()
                self._count_part()
                return self._write_part(part)
            case _:
                assert_never(block)

    def _count_part(self) -> None:
        """Count a visible part that the client joins with no other."""
        self._joining = ""
        self._parts += 1
        self._visible = True

    def _add_query(self, block: HostedCall | HostedResult) -> Frames:
        """Record the query of a search. Gemini has no part for a search, only queries and citations."""
        queries = find_queries(block) if isinstance(block, HostedCall) else ()
        for query in queries:
            self._grounding.add_query(query)
        if not queries:
            self._context.losses.add(block.at, "Gemini shows only the query and the citations of a search")
        return ()

    def _on_text_delta(self, event: TextDelta) -> Frames:
        return self._write_text(self._open, event.text) if self._open else ()

    def _write_text(self, block: OpenPart, text: str) -> Frames:
        if not text:
            return ()
        self._visible = True
        if self._joining != "text":
            self._join("text")
        block.text.add(text)
        return (Frame("", _HEAD + escape_line_ends(_encode(text)) + self._text_tail),)

    def _on_reasoning_delta(self, event: ReasoningDelta) -> Frames:
        return self._write_thought(self._open, event.text, event.part) if self._open else ()

    def _write_thought(self, block: OpenPart, text: str, part: int) -> Frames:
        if not text:
            return ()
        begins = part not in block.parts
        shown = _BETWEEN_PARTS + text if begins and block.parts else text
        if begins:
            block.parts[part] = []
        block.parts[part].append(text)
        if not self._shows_thoughts:
            return ()
        if self._joining != "thought":
            self._join("thought")
        return (Frame("", _HEAD + escape_line_ends(_encode(shown)) + _THOUGHT_TAIL + self._suffix),)

    def _on_arguments_delta(self, event: ArgumentsDelta) -> Frames:
        if self._open:
            self._open.pieces.append(event.text)
        return ()

    def _on_seal_attached(self, event: SealAttached) -> Frames:
        if self._open:
            self._open.seal = event.seal
        return ()

    def _on_citation_added(self, event: CitationAdded) -> Frames:
        if self._open and not self._native:
            self._open.citations.append(event.citation)
        return ()

    def _on_block_closed(self, event: BlockClosed) -> Frames:
        closing, self._open = self._open, None
        if closing is None:
            return ()
        block = closing.block
        if isinstance(block, ToolCall):
            return self._write_call(closing, block)
        if isinstance(block, Reasoning):
            return self._close_text(
                closing, event, thought=bool(closing.parts), carried=self._build_carried_item(closing, block)
            )
        if isinstance(block, Text):
            seal = closing.seal
            carried = SealedItem(kind="text", seal=seal) if seal and not is_native(seal) else None
            self._add_citations(closing)
            self._logprobs += event.logprobs
            return self._close_text(closing, event, thought=False, carried=carried)
        if isinstance(block, Refusal):
            return self._close_text(closing, event, thought=False, carried=None)
        return ()

    def _add_citations(self, closing: OpenPart) -> None:
        """Add the citations of a text, with offsets in the text that the client has after joining."""
        if closing.citations and closing.text.size:
            self._grounding.cite(self._parts - 1, self._joined, closing.text, closing.citations)
        self._joined += closing.text.size

    def _build_carried_item(self, closing: OpenPart, block: Reasoning) -> SealedItem | None:
        """What the next call must carry: another vendor's seal and its thought, or a thought alone."""
        seal = closing.seal
        if self._native if seal is None else is_native(seal):
            return None
        parts = tuple("".join(closing.parts[part]) for part in sorted(closing.parts))
        if seal is None and not parts:
            return None
        return SealedItem(kind="reasoning", seal=seal or UNSEALED, parts=parts, redacted=block.redacted)

    def _close_text(
        self, closing: OpenPart, event: BlockClosed, *, thought: bool, carried: SealedItem | None
    ) -> Frames:
        if carried is not None:
            self._waiting.append(carried)
        part: Json = {}
        if closing.seal is not None and is_native(closing.seal):
            part["thoughtSignature"] = closing.seal.value
        if self._native:
            part |= closing.block.extras | event.extras
        is_bare = closing.block.form == BARE or part.pop(BARE_EXTRA, False)
        if not part:
            return ()
        if not self._joining:
            self._parts += 1
        self._joining = ""
        if is_bare and self._native:
            return self._write_part(part)
        if thought:
            part["thought"] = True
        return self._write_part({"text": "", **part})

    def _write_call(self, closing: OpenPart, block: ToolCall) -> Frames:
        text = "".join(closing.pieces)
        arguments: Json | None = {"input": text} if block.kind == "custom" else parse_object(text)
        if arguments is None:
            self._context.losses.add(block.at, "arguments that are no JSON object were wrapped as text")
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
        signature = self._choose_signature(closing.seal, block)
        if signature:
            part["thoughtSignature"] = signature
        self._calls += 1
        self._count_part()
        return self._write_part(part)

    def _choose_signature(self, seal: Seal | None, call: ToolCall) -> str:
        items, self._waiting = self._waiting, []
        if seal is not None and (items or not is_native(seal)):
            items.append(SealedItem(kind="call", seal=seal, call_id=call.id))
        if items:
            return encode_envelope(items)
        return seal.value if seal is not None else ""

    def _on_usage_reported(self, event: UsageReported) -> Frames:
        self._usage = self._usage.merge(event.usage) if self._usage else event.usage
        return ()

    def _on_reply_finished(self, event: ReplyFinished) -> Frames:
        extras = event.extras if self._native else {}
        payload: Json = {}
        if not (extras.get("blocked") and not self._parts):
            payload["candidates"] = [self._build_last_candidate(event, extras.get("candidate"))]
        usage = write_usage(self._usage, native=self._native) if self._usage else {}
        if usage:
            payload["usageMetadata"] = usage
        beside = extras.get("reply")
        return self._build_frame({**payload, **self._reply, **(beside if isinstance(beside, dict) else {})})

    def _build_last_candidate(self, event: ReplyFinished, beside: object) -> Json:
        candidate: Json = {}
        sealed = [item for item in self._waiting if item.seal.value]
        if sealed:
            part = {"text": "", "thoughtSignature": encode_envelope(sealed)}
            candidate["content"] = {"parts": [part], "role": "model"}
        candidate["finishReason"] = choose_finish_reason(
            event, native=self._native, has_calls=self._calls > 0, visible=self._visible
        )
        candidate["index"] = 0
        if isinstance(beside, dict):
            fields = dict(beside)
            if self._parts:
                fields.pop("content", None)
            return candidate | fields
        if event.explanation:
            candidate["finishMessage"] = event.explanation
        if self._logprobs and self._shows_logprobs:
            candidate[RESULT] = write_tokens(self._logprobs)
        grounding = self._grounding.build()
        if grounding:
            candidate["groundingMetadata"] = grounding
        return candidate

    def _on_reply_failed(self, event: ReplyFailed) -> Frames:
        return self._build_frame(write_error(event.failure))


_HANDLERS: dict[type, Callable[[GeminiStreamWriter, Any], Frames]] = {
    TextDelta: GeminiStreamWriter._on_text_delta,
    ReasoningDelta: GeminiStreamWriter._on_reasoning_delta,
    ArgumentsDelta: GeminiStreamWriter._on_arguments_delta,
    BlockOpened: GeminiStreamWriter._on_block_opened,
    BlockClosed: GeminiStreamWriter._on_block_closed,
    SealAttached: GeminiStreamWriter._on_seal_attached,
    CitationAdded: GeminiStreamWriter._on_citation_added,
    UsageReported: GeminiStreamWriter._on_usage_reported,
    ReplyStarted: GeminiStreamWriter._on_reply_started,
    ReplyFinished: GeminiStreamWriter._on_reply_finished,
    ReplyFailed: GeminiStreamWriter._on_reply_failed,
}
