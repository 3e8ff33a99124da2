"""What the deltas of a Chat reply say, one kind of thing after another: thought, text, refusal, calls.

One block is being said at a time, the voice; a change of kind ends it and begins the next. Calls stand
beside the voice and may go on while it speaks.
"""

from functools import partial

from dragoman.dialects.base import Json, Source
from dragoman.dialects.openai_chat.calls import CallAssembler, text_of
from dragoman.dialects.openai_chat.citations import read_annotation
from dragoman.dialects.openai_chat.media import read_reply_image
from dragoman.dialects.openai_chat.reasoning import LIST_FIELDS, TEXT_FIELDS, Thought, read_entry
from dragoman.dialects.openai_chat.repetition import Change
from dragoman.dialects.openai_chat.voice import Voice
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.content import Reasoning, Refusal, ReplyBlock, Text

#: Keys of a delta that are read here; anything else is kept for clients of this dialect.
DELTA_FIELDS = frozenset(
    (
        "role",
        "content",
        "refusal",
        "tool_calls",
        "function_call",
        "annotations",
        "images",
        *TEXT_FIELDS,
        *LIST_FIELDS,
    )
)

CALL_FIELDS = ("tool_calls", "function_call")


class DeltaReader:
    """Turns deltas into blocks. `visible` counts the characters of text said so far."""

    def __init__(self, source: Source, builder: ReplyBuilder) -> None:
        self._source = source
        self._builder = builder
        self.voice = voice = Voice(source, builder)
        self.calls = CallAssembler(source, builder, voice)
        self.visible = 0
        self.refused = False
        #: Content was given as an empty string, which is not the same as null.
        self.said_nothing = False
        self._visible_before = 0

    def read(self, delta: Json, choice: int) -> Json:
        """Take in one delta; gives back what it holds beyond our vocabulary."""
        self._read_reasoning(delta)
        content = delta.get("content")
        if isinstance(content, str):
            self.said_nothing = True
            self.say(Text, content)
        elif isinstance(content, list):
            for part in content:
                self._read_part(part)
        refusal = delta.get("refusal")
        if isinstance(refusal, str):
            self.say(Refusal, refusal)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            self.calls.feed(calls, choice)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict):
            self.calls.feed_legacy(legacy, choice)
        rest = self._read_attachments(delta)
        if not delta.keys() <= DELTA_FIELDS:
            rest.update((name, value) for name, value in delta.items() if name not in DELTA_FIELDS)
        return rest

    def read_plain(self, delta: Json) -> bool:
        """Take in a delta that only continues the voice or the calls. False leaves it to `read`."""
        voice = self.voice
        text = delta.get(voice.field)
        if type(text) is str:
            if voice.kind is Text:
                self.visible += len(text)
            self._builder.append(voice.block, text)
            return True
        calls = delta.get("tool_calls")
        if type(calls) is list:
            self.calls.feed(calls, 0)
            return True
        return False

    def change_in(self, delta: Json) -> Change | None:
        """What the next delta may say otherwise than this one, which `read_plain` took."""
        voice = self.voice
        if voice.field in delta:
            return Change(delta, voice.field, partial(self._go_on, voice.block))
        calls = delta.get("tool_calls")
        return self.calls.change_in(calls[0]) if isinstance(calls, list) and len(calls) == 1 else None

    def _go_on(self, block: int, text: str) -> bool:
        voice = self.voice
        if voice.block != block:
            return False
        if voice.kind is Text:
            self.visible += len(text)
        self._builder.append(block, text)
        return True

    def say(self, kind: type[Text] | type[Refusal], text: str) -> None:
        if not text:
            return
        if self.voice.kind is not kind:
            self._begin(kind(text=""), "content" if kind is Text else "refusal")
            self._visible_before = self.visible
        if kind is Text:
            self.visible += len(text)
        else:
            self.refused = True
        self._builder.append(self.voice.block, text)

    def _begin(self, block: ReplyBlock, field: str) -> None:
        self.voice.hush()
        self.calls.settle()
        self.voice.begin(block, field)

    def _think(self, text: str, form: str, *, raw: bool) -> None:
        if not text:
            return
        if self.voice.kind is not Reasoning:
            self._begin(Reasoning(form=form, raw=raw), form if form in TEXT_FIELDS else "")
        self._builder.append(self.voice.block, text)

    def _seal(self, thought: Thought) -> None:
        """A seal ends the thought it stands on; what follows is another one."""
        seal = self.voice.seal_of(thought.seal)
        if self.voice.kind is not Reasoning:
            self._begin(Reasoning(redacted=thought.redacted), "")
        self._builder.seal(self.voice.block, seal)
        self.voice.hush()

    def _read_reasoning(self, delta: Json) -> None:
        thoughts = [(field, thought) for field in LIST_FIELDS for thought in self._entries(delta, field)]
        told = False
        for field in TEXT_FIELDS:
            text = delta.get(field)
            if isinstance(text, str) and text:
                self._think(text, field, raw=all(thought.raw for _, thought in thoughts))
                told = True
                break
        for field, thought in thoughts:
            if not told:
                self._think(thought.text, field, raw=thought.raw)
            if thought.seal:
                self._seal(thought)

    def _entries(self, delta: Json, field: str) -> list[Thought]:
        entries = delta.get(field)
        if not isinstance(entries, list):
            return []
        thoughts = [thought for entry in entries if (thought := read_entry(entry)) is not None]
        if len(thoughts) != len(entries):
            self._source.losses.add("", f"an entry of {field} of an unknown type was skipped")
        return thoughts

    def _read_part(self, part: object) -> None:
        """Content in parts, as Mistral sends it while thinking."""
        if isinstance(part, str):
            self.say(Text, part)
            return
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or kind not in ("text", "output_text", "thinking", "refusal"):
            self._source.losses.add("", "a content part of an unknown type was skipped")
        elif kind == "thinking":
            thinking = part.get("thinking")
            inner = thinking if isinstance(thinking, list) else [{"text": thinking}]
            for piece in inner:
                self._think(text_of(piece.get("text")) if isinstance(piece, dict) else "", "parts", raw=True)
        elif kind == "refusal":
            self.say(Refusal, text_of(part.get("refusal")))
        else:
            self.say(Text, text_of(part.get("text")))

    def _read_attachments(self, delta: Json) -> Json:
        """Citations and images. Citations that come after their text has ended are given back."""
        late: list[object] = []
        annotations = delta.get("annotations")
        for value in annotations if isinstance(annotations, list) else ():
            if not isinstance(value, dict):
                continue
            if self.voice.kind is Text:
                self._builder.cite(self.voice.block, read_annotation(value, self._visible_before))
            else:
                late.append(value)
        images = delta.get("images")
        for value in images if isinstance(images, list) else ():
            image = read_reply_image(value)
            if image is not None:
                self.voice.hush()
                self.calls.settle()
                self._builder.add_block(image)
        return {"annotations": late} if late else {}
