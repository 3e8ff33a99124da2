"""Reads the stream of a reply: chunks whose parts are pieces of text, or whole calls, media and results.

The stream does not open or close blocks, so a block lasts as long as the parts are of its kind. A signature
ends its block too, but only before the next part, because citations in the same chunk still belong to the
block. A part with nothing but a signature completes the text or thought before it. Without one it gets a
block of its own, at the next part or at the end: calls keep the signatures that they came with. The reply is
complete when the bytes end after a finish reason or a blocked prompt; otherwise it is truncated.
"""

from typing import ClassVar

import msgspec

from dragoman.dialects.delta_template import DeltaTemplate, VaryingMember
from dragoman.dialects.errors import read_failure
from dragoman.dialects.frames import FrameReader
from dragoman.dialects.gemini.citations import SEARCH, CitedText, build_search, read_citations, read_queries
from dragoman.dialects.gemini.content_reader import PartReader, find_extra_data, remove_invalid_fields
from dragoman.dialects.gemini.logprobs import RESULT, read_tokens
from dragoman.dialects.gemini.names import NameConverter, to_camel
from dragoman.dialects.gemini.reasoning import BARE, BARE_EXTRA, read_signature
from dragoman.dialects.gemini.stop_reasons import (
    CAUSES,
    KNOWN_IN_REPLY,
    NO_REASON,
    NOT_BLOCKED,
    ReplyMetadata,
    read_seconds,
)
from dragoman.dialects.gemini.stream_blocks import GrowingText, PendingCall
from dragoman.dialects.gemini.usage import read_usage
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.hub.blocks import Extras, HostedCall, Reasoning, Text
from dragoman.hub.errors import DragomanError, UpstreamProtocolError
from dragoman.hub.events import ReplyFinished, ReplyStarted
from dragoman.hub.seal import Seal
from dragoman.wire.fields import Fields
from dragoman.wire.json_array import JsonArrayReader
from dragoman.wire.sse import Frame, SseReader

_BLANK = b" \t\r\n\xef\xbb\xbf"

_CITING = frozenset({"groundingMetadata", "citationMetadata"})
_TEXT_FIELDS = frozenset({"text", "thought", "thoughtSignature"})


class ChunkReader(SseReader):
    """Reads one frame per chunk, in any of the three formats that servers send.

    With `alt=sse` a server sends `data:` lines, otherwise one JSON array of the same chunks. Some servers
    send a single object, and an error may be a list inside a `data:` line. The first byte decides the format.
    """

    __slots__ = ("_array", "_known")

    def __init__(self) -> None:
        super().__init__()
        self._known = False
        self._array: JsonArrayReader | None = None

    @property
    def is_between_events(self) -> bool:
        return self._array is None and super().is_between_events

    def feed(self, data: bytes) -> list[Frame]:
        if not self._known:
            # The rest of a byte order mark may come with the next piece.
            data = data.lstrip(_BLANK)
            if not data:
                return []
            self._known = True
            if data[:1] in (b"[", b"{"):
                self._array = JsonArrayReader()
        if self._array is not None:
            return self._note_frames(self._array.feed(data))
        return self._unwrap_lists(super().feed(data))

    def close(self) -> list[Frame]:
        if self._array is not None:
            return self._note_frames(self._array.close())
        return self._unwrap_lists(super().close())

    def _note_frames(self, frames: list[Frame]) -> list[Frame]:
        self.saw_event = self.saw_event or bool(frames)
        return frames

    def _unwrap_lists(self, frames: list[Frame]) -> list[Frame]:
        for frame in frames:
            if frame.data.startswith(b"["):
                break
        else:
            return frames
        unwrapped: list[Frame] = []
        for frame in frames:
            if frame.data[:1] == b"[":
                inner = JsonArrayReader()
                unwrapped += inner.feed(frame.data)
            else:
                unwrapped.append(frame)
        return unwrapped


class GeminiStreamReader(FrameReader):
    """Turns the bytes of a reply into events."""

    #: The places of citations are counted in the bytes of the text.
    keeps_texts: ClassVar = True

    def __init__(self, context: UpstreamContext) -> None:
        super().__init__(context)
        self._parts = PartReader(NameConverter(), lambda: context.ids.make("call_"))
        self._metadata = ReplyMetadata()
        usage = VaryingMember(self._metadata.read_usages, {"dragoman": 0})
        self._template = DeltaTemplate({"usageMetadata": usage})
        self._call: PendingCall | None = None
        self._call_ids: set[str] = set()
        self._model = context.model
        self._finish = ""
        self._blocked = ""
        self._has_usage = False
        self._text = GrowingText(self.builder)
        #: A signature that no part carries, and the fields beside it.
        self._stray_seal: tuple[Seal, Reasoning, Extras] | None = None
        self._keeps_text = context.request is None or any(t.kind == "hosted" for t in context.request.tools)
        #: The queries of the metadata. A part may report the same searches (`toolCall`).
        self._queries: dict[str, None] = {}
        self._has_search = False
        self._extras: Extras = {}

    def _build_frame_reader(self) -> SseReader:
        return ChunkReader()

    def _read_whole(self, body: Json) -> None:
        self._read(body, "")

    def _read(self, payload: Json, event: str) -> None:
        if self._text.block >= 0 and not self._text.sealed and self._read_more(payload):
            return
        payload = to_camel(payload)
        if payload.get("error"):
            self._report_usage()
            self.builder.fail(read_failure(payload))
            return
        if not self.builder.is_started:
            self._start(payload)
        self._metadata.add_chunk(payload)
        candidates = payload.get("candidates")
        if isinstance(candidates, list) and candidates:
            self._read_candidates(candidates)
        elif (feedback := payload.get("promptFeedback")) is not None:
            self._read_feedback(feedback)
        if not self._has_usage and self._metadata.usage:
            # Some dialects write the size of the prompt first, so the first count is reported at once.
            self._has_usage = True
            self.builder.report_usage(read_usage(dict(self._metadata.usage)))

    def _read_more(self, payload: Json) -> bool:
        """Read a chunk that only continues the open text, as nearly every chunk does. False for any other."""
        candidates = payload.get("candidates")
        if type(candidates) is not list or len(candidates) != 1 or not payload.keys() <= KNOWN_IN_REPLY:
            return False
        candidate = candidates[0]
        if type(candidate) is not dict or len(candidate) != 2 or candidate.get("index") != 0:
            return False
        content = candidate.get("content")
        parts = content.get("parts") if type(content) is dict else None
        if type(parts) is not list or len(parts) != 1 or type(parts[0]) is not dict:
            return False
        part = parts[0]
        text = part.get("text")
        if type(text) is not str or len(part) != 1 + self._text.thinking:
            return False
        if not self._text.thinking:
            self._text.cited.add(text)
        elif part.get("thought") is not True:
            return False
        usage = payload.get("usageMetadata")
        if usage is not None:
            self._metadata.add_usage(usage)
        self.builder.append(self._text.block, text)
        if self._template.can_learn:
            self._template.learn(self._frame, payload, self._text.find_change(part))
        return True

    def _start(self, payload: Json) -> None:
        model, reply_id = payload.get("modelVersion"), payload.get("responseId")
        self._model = model if isinstance(model, str) and model else self.context.model
        self.builder.start(
            ReplyStarted(
                id=reply_id if isinstance(reply_id, str) else "",
                model=self._model,
                created=read_seconds(payload.get("createTime")),
            )
        )

    def _read_feedback(self, feedback: object) -> None:
        reason = to_camel(feedback).get("blockReason") if isinstance(feedback, dict) else None
        if isinstance(reason, str) and reason not in NOT_BLOCKED:
            self._blocked = reason

    def _read_candidates(self, candidates: list[object]) -> None:
        for candidate in candidates:
            if not isinstance(candidate, dict):
                self.context.losses.add("candidates", "a candidate that is no object was skipped")
            elif candidate.get("index") in (0, None) or type(candidate["index"]) is not int:
                self._read_candidate(to_camel(candidate))
            else:
                self.context.losses.add("candidates", "only the first of several answers can be translated")

    def _read_candidate(self, candidate: Json) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        if isinstance(parts, list):
            for number, part in enumerate(parts):
                self._read_part(part, number)
        metadata = self._metadata.add_candidate(candidate)
        if not _CITING.isdisjoint(metadata):
            self._cite(metadata)
            self._queries.update(dict.fromkeys(read_queries(metadata)))
        if RESULT in metadata:
            self.builder.add_logprobs(self._text.block, read_tokens(metadata[RESULT]))
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason not in NO_REASON:
            self._finish = reason

    def _read_part(self, part: object, number: int) -> None:
        if type(part) is not dict:
            self.context.losses.add(f"parts[{number}]", "a part that is no object was skipped")
            return
        text = part.get("text")
        if type(text) is str:
            if len(part) == 1:
                if text:
                    self._append_text(text, False)
                return
            if len(part) == 2 and part.get("thought") is True:
                if text:
                    self._append_text(text, True)
                return
        part = to_camel(part)
        if isinstance(part.get("functionCall"), dict):
            self._read_call(part)
        elif type(text) is str or part.keys() <= _TEXT_FIELDS:
            self._read_signed_text(part)
        else:
            self._read_whole_part(part, number)

    def _read_whole_part(self, part: Json, number: int) -> None:
        legal = remove_invalid_fields(part)
        if legal is None:
            self.context.losses.add(f"parts[{number}]", "a part without content was skipped")
            return
        try:
            block = self._parts.read(Fields(legal, error_class=UpstreamProtocolError))
        except DragomanError as error:
            self.context.losses.add(f"parts[{number}]", f"a part was skipped: {error.message}")
            return
        self._has_search = self._has_search or (isinstance(block, HostedCall) and block.tool == SEARCH)
        self._close_block()
        self.builder.add_block(block)

    def _append_text(self, text: str, thinking: bool) -> None:
        if self._text.block < 0 or self._text.thinking is not thinking or self._text.sealed:
            self._close_block()
            self._text.thinking = thinking
            self._text.block = self.builder.open(Reasoning() if thinking else Text(text=""))
            self._text.cited = CitedText(keep=self._keeps_text)
        if not thinking:
            self._text.cited.add(text)
        self.builder.append(self._text.block, text)

    def _close_block(self) -> None:
        """Close the open block, and a call that never got its last part. Report a signature on its own."""
        if self._text.block >= 0:
            self.builder.close(self._text.block, self._extras)
            self._text.block = -1
            self._text.sealed = False
            self._extras = {}
        if self._call is not None:
            self._end_call(whole=False)
        if self._stray_seal is not None:
            seal, carrier, extras = self._stray_seal
            self._stray_seal = None
            block = self.builder.open(carrier)
            self.builder.seal(block, seal)
            self.builder.close(block, extras)

    def _read_signed_text(self, part: Json) -> None:
        """Read text with a signature or with other fields, or a signature alone."""
        text = part.get("text")
        thinking = part.get("thought") is True
        if isinstance(text, str) and text:
            self._append_text(text, thinking)
        stray = find_extra_data(part, "text")
        extras = {key: value for key, value in part.items() if key not in _TEXT_FIELDS and key not in stray}
        seal = self._read_seal(part)
        if seal is not None and not text:
            self._complete_block(seal, extras, thinking=thinking, is_bare="text" not in part)
            return
        if extras and (self._text.block < 0 or self._text.sealed or self._text.thinking is not thinking):
            self._close_block()
            self._text.thinking = thinking
            self._text.block = self.builder.open(Reasoning() if thinking else Text(text=""))
        self._extras.update(extras)
        if seal is not None:
            self.builder.seal(self._text.block, seal)
            self._text.sealed = True

    def _complete_block(self, seal: Seal, extras: Extras, *, thinking: bool, is_bare: bool) -> None:
        """Put a signature without text on the block before it, or keep it for a block of its own."""
        if self._text.block < 0 or self._text.sealed or (thinking and not self._text.thinking):
            self._close_block()
            self._stray_seal = (seal, Reasoning(form=BARE if is_bare else ""), extras)
            return
        self.builder.seal(self._text.block, seal)
        self._text.sealed = True
        self._extras.update(extras | ({BARE_EXTRA: True} if is_bare else {}))

    def _read_seal(self, part: Json) -> Seal | None:
        signature = part.get("thoughtSignature")
        return (
            read_signature(signature, self.context.issuer, self._model)
            if isinstance(signature, str)
            else None
        )

    def _read_call(self, part: Json) -> None:
        value = part["functionCall"]
        call = to_camel(value) if isinstance(value, dict) else {}
        name = call.get("name")
        if self._call is None or (isinstance(name, str) and name):
            self._close_block()
            if not isinstance(name, str) or not name:
                self.context.losses.add("functionCall", "a call without a name was skipped")
                return
            self._call = PendingCall(call, part, self._choose_id(call.get("id")))
        pending, seal = self._call, self._read_seal(part)
        for item in pending.add(call):
            self.context.losses.add("functionCall.partialArgs", item)
        continues = call.get("willContinue") is True
        if pending.index < 0:
            arguments = "" if continues else pending.arguments(whole=True)
            block = msgspec.structs.replace(pending.block, arguments=arguments, seal=seal)
            pending.index = self.builder.open(block)
            if not continues:
                self.builder.close(pending.index)
                self._call = None
        else:
            if seal is not None:
                self.builder.seal(pending.index, seal)
            if not continues:
                self._end_call(whole=True)

    def _choose_id(self, given: object) -> str:
        """The id of a call, or a new one if it has none or repeats one."""
        if not isinstance(given, str) or not given or given in self._call_ids:
            return self.context.ids.make("call_")
        self._call_ids.add(given)
        return given

    def _end_call(self, *, whole: bool) -> None:
        if self._call is not None:
            self.builder.append(self._call.index, self._call.arguments(whole=whole))
            self.builder.close(self._call.index)
            self._call = None

    def _cite(self, metadata: Json) -> None:
        if self._text.block < 0 or self._text.thinking:
            self.context.losses.add("groundingMetadata", "citations came when no text was open")
            return
        for citation in read_citations(metadata, self._text.cited):
            self.builder.cite(self._text.block, citation)

    def _report_usage(self) -> None:
        if self._metadata.usage:
            self.builder.report_usage(read_usage(self._metadata.usage))

    def _end(self) -> None:
        self._report_usage()
        if not self._finish and not self._blocked:
            return
        reason = self._finish or self._blocked
        finished = ReplyFinished(
            cause=CAUSES.get(reason, "other") if self._finish else "content_filter",
            raw_cause=reason,
            explanation=self._metadata.find_explanation(),
            extras=self._metadata.build_extras(blocked=not self._finish),
        )
        if not self.builder.fail_if_unanswered(finished):
            self._close_block()
            if self._queries and not self._has_search:
                call = build_search(tuple(self._queries), self.context.ids.make("search_"))
                self.builder.close(self.builder.open(call))
            self.builder.finish(finished)
