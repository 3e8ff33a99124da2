"""`ExpressPath`: the short way of a text delta that arrives alone.

Most reads of a live stream are one event that differs from the one before only in its text. If reader and
writer agree, it learns the bytes around the text on both sides from an event that took the ordinary
way: through reader, stages, grammar and writer. From then on an event with the same bytes around its text
becomes output without any of them. Reader and writer get the number of characters when it is left:
at the first read that does not fit, and before anything else is written.
"""

from collections.abc import Callable

import msgspec

from dragoman.dialects.event_template import EventTemplate
from dragoman.dialects.interfaces import StreamReader, StreamWriter
from dragoman.hub.events import ReadEvents, TextDelta
from dragoman.wire.sse import FrameRuns, encode_sse

_encode = msgspec.json.Encoder().encode

#: Characters after which reader and writer are informed: they limit the size of a reply.
MOST_CHARACTERS = 1024 * 1024


class ExpressPath:
    """The express path of one round of a reply.

    It is open to readers with a `text_template` and to writers that take part: both have `count_text`. Such
    a writer declares that a text delta changes nothing but its count of characters, and that the frames of
    one text differ only in the text.
    """

    __slots__ = ("_characters", "_count_read", "_count_written", "_head", "_reader", "_tail", "_template")

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._count_read: Callable[[int], None] | None = getattr(reader, "count_text", None)
        self._count_written: Callable[[int], None] | None = getattr(writer, "count_text", None)
        #: The bytes around the text of an event, in and out.
        self._template: EventTemplate | None = None
        self._head = self._tail = b""
        #: Those that passed since reader and writer were informed.
        self._characters = 0

    def translate(self, data: bytes) -> bytes | None:
        """The output for one event that fits; None if it must take the ordinary way."""
        template = self._template
        if template is None:
            return None
        text = template.read_event(data)
        if not text or self._characters > MOST_CHARACTERS:
            self.leave()
            return None
        self._characters += len(text)
        return self._head + _encode(text) + self._tail

    def learn(self, data: bytes, events: ReadEvents, output: FrameRuns) -> None:
        """Learn from a read that took the ordinary way. Called only if no stage handles texts."""
        event = events[0]
        if self._count_read is None or self._count_written is None or type(event) is not TextDelta:
            return
        template: EventTemplate | None = getattr(self._reader, "text_template", None)
        if template is None or len(output.parts) != 1 or template.read_event(data) != event.text:
            return
        encoded, value = encode_sse(output), _encode(event.text)
        # A text that occurs twice may be the name of a member.
        if encoded.count(value) == 1:
            self._template = template
            self._head, _, self._tail = encoded.partition(value)

    def leave(self) -> None:
        """Inform reader and writer. The next event takes the ordinary way."""
        self._template = None
        characters, self._characters = self._characters, 0
        if characters and self._count_read is not None and self._count_written is not None:
            self._count_read(characters)
            self._count_written(characters)
