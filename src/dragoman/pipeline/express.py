"""`ExpressPath`: the short way of a delta of text or reasoning that arrives alone.

Most reads of a live stream are one event that differs from the one before only in its text. If reader and
writer agree, it learns the bytes around the text on both sides from an event that took the ordinary
way: through reader, stages, grammar and writer. From then on an event with the same bytes around its text
becomes output without any of them. The reader gets the texts and the writer the number of characters when
the path is left: at the first read that does not fit, and before anything else is written.

A writer that must see every text, for an event number or a copy of the text, gets each text as a delta, and
all writers get reasoning so. Such an event still passes neither reader nor stages nor grammar.
"""

from collections.abc import Callable

import msgspec

from dragoman.dialects.event_template import EventTemplate
from dragoman.dialects.interfaces import StreamReader, StreamWriter
from dragoman.hub.events import DeltaRun, ReasoningDelta, ReplyEvent, TextDelta
from dragoman.hub.stage import Skim
from dragoman.wire.sse import FrameRuns, Output, RawEvents, encode_sse

_encode = msgspec.json.Encoder().encode

#: Characters after which reader and writer are informed: they limit the size of a reply.
MOST_CHARACTERS = 1024 * 1024


class ExpressPath:
    """The express path of one round of a reply.

    It is open to readers with `text_template` and `count_texts`. A writer with `count_text` declares that a
    text delta of the open block changes nothing but its count of characters, and that the frames of one text
    differ only in the text; with `counts_only_ascii`, that this holds for texts in ASCII. All other texts are
    written as deltas.
    """

    __slots__ = (
        "_characters",
        "_count_read",
        "_count_written",
        "_head",
        "_index",
        "_keeps_texts",
        "_kind",
        "_learned",
        "_reader",
        "_skim",
        "_tail",
        "_template",
        "_texts",
        "_writer",
        "_writes_deltas",
        "_written",
    )

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._count_read: Callable[[list[str], int], None] | None = getattr(reader, "count_texts", None)
        self._count_written: Callable[[int], None] | None = None
        #: Whether all texts, or all outside ASCII, are written as deltas.
        self._writes_deltas = False
        #: The bytes around the text of an event, in and out, and the block of the text.
        self._template: EventTemplate | None = None
        #: The template that was learned last. The same block has the same bytes around later texts too.
        self._learned: EventTemplate | None = None
        self._skim: Skim | None = None
        self._head = self._tail = b""
        self._index = 0
        self._kind: type[TextDelta] | type[ReasoningDelta] = TextDelta
        #: The characters that passed since reader and writer were informed, and those written as deltas.
        self._characters = self._written = 0
        #: The texts that passed since then, if the reader needs them.
        self._texts: list[str] = []
        self._keeps_texts = getattr(reader, "keeps_texts", False)

    def translate(self, data: bytes) -> Output | None:
        """The output for one event that fits; None if it must take the ordinary way."""
        template = self._template
        if template is None:
            return None
        text = template.read_event(data)
        if not text or self._characters > MOST_CHARACTERS or (self._skim and not self._skim(text)):
            self.leave()
            return None
        self._characters += len(text)
        if self._keeps_texts:
            self._texts.append(text)
        if self._writes_deltas and (self._count_written is None or not text.isascii()):
            self._written += len(text)
            return self._writer.write(self._kind(self._index, text))
        return RawEvents(self._head + _encode(text) + self._tail)

    def learn(
        self,
        data: bytes,
        event: ReplyEvent | DeltaRun,
        output: FrameRuns,
        skim: Skim | None,
        *,
        is_unchanged: bool,
    ) -> None:
        """Learn from a read that took the ordinary way and was one event.

        Called only if no stage handles events of this kind, or one with the test `skim`: what does not pass
        it leaves the path. `is_unchanged`: no stage has changed this event, so that the output has its text.
        """
        if self._count_read is None or not isinstance(event, TextDelta | ReasoningDelta):
            return
        kind = type(event)
        template: EventTemplate | None = getattr(self._reader, "text_template", None)
        if template is None or (isinstance(event, ReasoningDelta) and event.part):
            return
        writer, is_text = self._writer, kind is TextDelta
        count: Callable[[int], None] | None = getattr(writer, "count_text", None) if is_text else None
        if template is not self._learned or event.index != self._index or count != self._count_written:
            if not is_unchanged or template.read_event(data) != event.text:
                return
            if count is not None:
                encoded, value = encode_sse(output), _encode(event.text)
                # A text that occurs twice may be the name of a member.
                if len(output.parts) != 1 or encoded.count(value) != 1:
                    return
                self._head, _, self._tail = encoded.partition(value)
            self._learned, self._index, self._kind, self._count_written = template, event.index, kind, count
            self._writes_deltas = count is None or getattr(writer, "counts_only_ascii", False)
        self._template, self._skim = template, skim

    def leave(self) -> None:
        """Inform reader and writer. The next event takes the ordinary way."""
        self._template = None
        characters, written, texts = self._characters, self._written, self._texts
        if not characters:
            return
        self._characters = self._written = 0
        self._texts = []
        if self._count_read is not None:
            self._count_read(texts, characters)
        if self._count_written is not None:
            self._count_written(characters - written)
