"""Reads a reply of Gemini: chunks whose parts are pieces of text, or whole calls, media and results.

Nothing in the stream opens or closes anything, so a block lasts as long as the parts are of its kind. A
signature ends its block too, but lazily: citations that come in the same chunk still find it open. The
reply is finished when the bytes end, and only if a finish reason or a blocked prompt was told before.
"""

from dragoman.dialects.base import Json, Source
from dragoman.dialects.errors import read_failure
from dragoman.dialects.frames import FrameReader
from dragoman.dialects.gemini.calls import ArrivingCall
from dragoman.dialects.gemini.framing import ChunkReader
from dragoman.dialects.gemini.grounding import SaidText, read_citations
from dragoman.dialects.gemini.metadata import KNOWN_IN_REPLY, Gathered, seconds_of
from dragoman.dialects.gemini.part_reader import PartReader, cleaned, stray_data
from dragoman.dialects.gemini.reasons import CAUSES, NO_REASON, NOT_BLOCKED, read_usage
from dragoman.dialects.gemini.signature import BARE, native_seal
from dragoman.dialects.gemini.spelling import Spelling, camel
from dragoman.hub.content import Extras, Reasoning, Text
from dragoman.hub.errors import DragomanError, UpstreamProtocolError
from dragoman.hub.events import ReplyFinished, ReplyStarted
from dragoman.hub.seal import Seal
from dragoman.wire.fields import Fields
from dragoman.wire.sse import SseReader

_CITING = frozenset({"groundingMetadata", "citationMetadata"})
_OPEN_WORDS = frozenset({"text", "thought", "thoughtSignature"})


class GeminiStreamReader(FrameReader):
    """Bytes of a reply in, events out."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._parts = PartReader(Spelling(), lambda: source.ids.make("call_"))
        self._gathered = Gathered()
        self._call: ArrivingCall | None = None
        self._call_ids: set[str] = set()
        self._model = source.model
        self._finish = ""
        self._blocked = ""
        self._usage_told = False
        #: The text or thought that is being said, if any.
        self._block = -1
        self._thinking = False
        self._sealed = False
        self._keeps_text = source.request is None or any(t.kind == "hosted" for t in source.request.tools)
        self._said = SaidText(keep=False)
        self._extras: Extras = {}

    def _framing(self) -> SseReader:
        return ChunkReader()

    def _read_whole(self, body: Json) -> None:
        self._read(body, "")

    def _read(self, payload: Json, event: str) -> None:
        if self._block >= 0 and not self._sealed and self._read_more(payload):
            return
        payload = camel(payload)
        if payload.get("error"):
            self._tell_usage()
            self.builder.fail(read_failure(payload))
            return
        if not self.builder.is_started:
            self._start(payload)
        self._gathered.reply(payload)
        candidates = payload.get("candidates")
        if isinstance(candidates, list) and candidates:
            self._read_candidates(candidates)
        elif (feedback := payload.get("promptFeedback")) is not None:
            self._read_feedback(feedback)
        if not self._usage_told and self._gathered.usage:
            # Dialects that tell the prompt's size first are served by the first count.
            self._usage_told = True
            self.builder.report_usage(read_usage(dict(self._gathered.usage)))

    def _read_more(self, payload: Json) -> bool:
        """Nearly every chunk: more of the text that is being said, and nothing that was not there before."""
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
        if type(text) is not str or len(part) != 1 + self._thinking:
            return False
        if not self._thinking:
            self._said.add(text)
        elif part.get("thought") is not True:
            return False
        usage = payload.get("usageMetadata")
        if usage is not None:
            self._gathered.count(usage)
        self.builder.append(self._block, text)
        return True

    def _start(self, payload: Json) -> None:
        model, reply_id = payload.get("modelVersion"), payload.get("responseId")
        self._model = model if isinstance(model, str) and model else self.source.model
        self.builder.start(
            ReplyStarted(
                id=reply_id if isinstance(reply_id, str) else "",
                model=self._model,
                created=seconds_of(payload.get("createTime")),
            )
        )

    def _read_feedback(self, feedback: object) -> None:
        reason = camel(feedback).get("blockReason") if isinstance(feedback, dict) else None
        if isinstance(reason, str) and reason not in NOT_BLOCKED:
            self._blocked = reason

    def _read_candidates(self, candidates: list[object]) -> None:
        for candidate in candidates:
            if not isinstance(candidate, dict):
                self.source.losses.add("candidates", "a candidate that is no object was skipped")
            elif candidate.get("index") in (0, None) or type(candidate["index"]) is not int:
                self._read_candidate(camel(candidate))
            else:
                self.source.losses.add("candidates", "only the first of several answers can be told")

    def _read_candidate(self, candidate: Json) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        if isinstance(parts, list):
            for number, part in enumerate(parts):
                self._read_part(part, number)
        told = self._gathered.candidate(candidate)
        if not _CITING.isdisjoint(told):
            self._cite(told)
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason not in NO_REASON:
            self._finish = reason

    def _read_part(self, part: object, number: int) -> None:
        if type(part) is not dict:
            self.source.losses.add(f"parts[{number}]", "a part that is no object was skipped")
            return
        text = part.get("text")
        if type(text) is str:
            if len(part) == 1:
                if text:
                    self._say(text, False)
                return
            if len(part) == 2 and part.get("thought") is True:
                if text:
                    self._say(text, True)
                return
        part = camel(part)
        if isinstance(part.get("functionCall"), dict):
            self._read_call(part)
        elif type(text) is str or part.keys() <= _OPEN_WORDS:
            self._read_signed_text(part)
        else:
            self._read_whole_part(part, number)

    def _read_whole_part(self, part: Json, number: int) -> None:
        legal = cleaned(part)
        if legal is None:
            self.source.losses.add(f"parts[{number}]", "a part that says nothing was skipped")
            return
        try:
            block = self._parts.read(Fields(legal, blame=UpstreamProtocolError))
        except DragomanError as error:
            self.source.losses.add(f"parts[{number}]", f"a part was skipped: {error.message}")
            return
        self._fall_silent()
        self.builder.add_block(block)

    def _say(self, text: str, thinking: bool) -> None:
        if self._block < 0 or self._thinking is not thinking or self._sealed:
            self._fall_silent()
            self._thinking = thinking
            self._block = self.builder.open(Reasoning() if thinking else Text(text=""))
            self._said = SaidText(keep=self._keeps_text)
        if not thinking:
            self._said.add(text)
        self.builder.append(self._block, text)

    def _fall_silent(self) -> None:
        """Close what is being said, and a call that never got its last piece."""
        if self._block >= 0:
            self.builder.close(self._block, self._extras)
            self._block = -1
            self._sealed = False
            self._extras = {}
        if self._call is not None:
            self._end_call(whole=False)

    def _read_signed_text(self, part: Json) -> None:
        """Text with a signature, text with fields of its own, or a signature alone."""
        text = part.get("text")
        thinking = part.get("thought") is True
        if isinstance(text, str) and text:
            self._say(text, thinking)
        stray = stray_data(part, "text")
        extras = {key: value for key, value in part.items() if key not in _OPEN_WORDS and key not in stray}
        seal = self._seal_of(part)
        joins = self._block >= 0 and not self._sealed and self._thinking is thinking
        if not joins and (seal is not None or extras):
            self._fall_silent()
            # A signature that belongs to no words is carried by a thought without any.
            self._thinking = thinking or seal is not None
            carrier = Reasoning(form="" if "text" in part else BARE)
            self._block = self.builder.open(carrier if self._thinking else Text(text=""))
        self._extras.update(extras)
        if seal is not None:
            self.builder.seal(self._block, seal)
            self._sealed = True

    def _seal_of(self, part: Json) -> Seal | None:
        signature = part.get("thoughtSignature")
        return native_seal(signature, self.source.issuer, self._model) if isinstance(signature, str) else None

    def _read_call(self, part: Json) -> None:
        value = part["functionCall"]
        call = camel(value) if isinstance(value, dict) else {}
        name = call.get("name")
        if self._call is None or (isinstance(name, str) and name):
            self._fall_silent()
            if not isinstance(name, str) or not name:
                self.source.losses.add("functionCall", "a call without a name was skipped")
                return
            self._call = ArrivingCall(call, part, self._fresh_id(call.get("id")))
            self._call.index = self.builder.open(self._call.block)
        seal = self._seal_of(part)
        if seal is not None:
            self.builder.seal(self._call.index, seal)
        for item in self._call.add(call):
            self.source.losses.add("functionCall.partialArgs", item)
        if call.get("willContinue") is not True:
            self._end_call(whole=True)

    def _fresh_id(self, given: object) -> str:
        """The call's id, or a new one if it has none or repeats one."""
        if not isinstance(given, str) or not given or given in self._call_ids:
            return self.source.ids.make("call_")
        self._call_ids.add(given)
        return given

    def _end_call(self, *, whole: bool) -> None:
        if self._call is not None:
            self.builder.append(self._call.index, self._call.arguments(whole=whole))
            self.builder.close(self._call.index)
            self._call = None

    def _cite(self, told: Json) -> None:
        if self._block < 0 or self._thinking:
            self.source.losses.add("groundingMetadata", "citations came when no text was open")
            return
        for citation in read_citations(told, self._said):
            self.builder.cite(self._block, citation)

    def _tell_usage(self) -> None:
        if self._gathered.usage:
            self.builder.report_usage(read_usage(self._gathered.usage))

    def _end(self) -> None:
        self._tell_usage()
        if not self._finish and not self._blocked:
            return
        self._fall_silent()
        reason = self._finish or self._blocked
        self.builder.finish(
            ReplyFinished(
                cause=CAUSES.get(reason, "other") if self._finish else "content_filter",
                raw_cause=reason,
                explanation=self._gathered.explanation(),
                extras=self._gathered.extras(blocked=not self._finish),
            )
        )
