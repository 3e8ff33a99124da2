"""Reads the deltas of a Chat reply: thoughts, text, refusals and calls.

One block other than a call is open at a time, the current block. A delta of another kind closes it and opens
the next. Calls are open beside the current block.
"""

from functools import partial

from dragoman.dialects.delta_template import TextChange
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.dialects.openai_chat.calls import CallAssembler
from dragoman.dialects.openai_chat.citations import read_annotation
from dragoman.dialects.openai_chat.fragments import text_of
from dragoman.dialects.openai_chat.media import read_reply_image
from dragoman.dialects.openai_chat.reasoning import LIST_FIELDS, TEXT_FIELDS, Thought, read_entry
from dragoman.dialects.openai_chat.stream_blocks import CurrentBlock
from dragoman.dialects.openai_logprobs import read_tokens
from dragoman.hub.blocks import Reasoning, Refusal, ReplyBlock, Text
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.events import count_characters

#: Fields of a delta that are read here; others are kept for clients of this dialect.
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
    """Turns deltas into blocks. `visible` counts the characters of text so far."""

    def __init__(self, context: UpstreamContext, builder: ReplyBuilder) -> None:
        self._context = context
        self._builder = builder
        self.current = current = CurrentBlock(context, builder)
        self.calls = CallAssembler(context, builder, current)
        self.visible = 0
        self.refused = False
        #: A delta had a string as its content. An empty string differs from null.
        self.has_string_content = False
        self._visible_before = 0

    def read(self, delta: Json, choice: int, logprobs: object = None) -> Json:
        """Read one delta and the `logprobs` beside it. Returns the fields that the hub does not know."""
        self._read_reasoning(delta)
        content = delta.get("content")
        if isinstance(content, str):
            self.has_string_content = True
            self.append_text(Text, content)
        elif isinstance(content, list):
            for part in content:
                self._read_part(part)
        if isinstance(logprobs, dict):
            # Before a call closes the text.
            self._builder.add_logprobs(self.current.block, read_tokens(logprobs.get("content")))
        refusal = delta.get("refusal")
        if isinstance(refusal, str):
            self.append_text(Refusal, refusal)
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
        """Read a delta that only continues the current block or the calls. False for any other delta."""
        current = self.current
        text = delta.get(current.field)
        if type(text) is str:
            if current.kind is Text:
                self.visible += len(text)
            self._builder.append(current.block, text)
            return True
        calls = delta.get("tool_calls")
        if type(calls) is list:
            self.calls.feed(calls, 0)
            return True
        return False

    def find_change(self, delta: Json) -> TextChange | None:
        """The text that may differ in the next delta, after `read_plain` has read this one."""
        current = self.current
        if current.field in delta:
            block = current.block
            take, take_run = partial(self._continue, block), partial(self._continue_run, block)
            count = self._count_texts if current.kind is not Refusal else None
            return TextChange(delta, current.field, take, take_run, count)
        calls = delta.get("tool_calls")
        return self.calls.find_change(calls[0]) if isinstance(calls, list) and len(calls) == 1 else None

    def _continue(self, block: int, text: str) -> bool:
        current = self.current
        if current.block != block:
            return False
        if current.kind is Text:
            self.visible += len(text)
        self._builder.append(block, text)
        return True

    def _continue_run(self, block: int, texts: list[str]) -> bool:
        current = self.current
        if current.block != block:
            return False
        characters = count_characters(texts)
        if current.kind is Text:
            self.visible += characters
        self._builder.append_run(block, texts, characters)
        return True

    def _count_texts(self, texts: list[str], characters: int) -> None:
        if self.current.kind is Text:
            self.visible += characters
        self._builder.count_text(characters)

    def append_text(self, kind: type[Text] | type[Refusal], text: str) -> None:
        if not text:
            return
        if self.current.kind is not kind:
            self._open(kind(text=""), "content" if kind is Text else "refusal")
            self._visible_before = self.visible
        if kind is Text:
            self.visible += len(text)
        else:
            self.refused = True
        self._builder.append(self.current.block, text)

    def _open(self, block: ReplyBlock, field: str) -> None:
        self.current.close()
        self.calls.make_room()
        self.current.open(block, field)

    def _append_thought(self, text: str, form: str, *, raw: bool) -> None:
        if not text:
            return
        if self.current.kind is not Reasoning:
            self._open(Reasoning(form=form, raw=raw), form if form in TEXT_FIELDS else "")
        self._builder.append(self.current.block, text)

    def _seal(self, thought: Thought) -> None:
        """Seal the open thought and close it: a following thought is another one."""
        seal = self.current.build_seal(thought.seal)
        if self.current.kind is not Reasoning:
            self._open(Reasoning(redacted=thought.redacted), "")
        self._builder.seal(self.current.block, seal)
        self.current.close()

    def _read_reasoning(self, delta: Json) -> None:
        thoughts = [(field, thought) for field in LIST_FIELDS for thought in self._read_entries(delta, field)]
        has_text = False
        for field in TEXT_FIELDS:
            text = delta.get(field)
            if isinstance(text, str) and text:
                self._append_thought(text, field, raw=all(thought.raw for _, thought in thoughts))
                has_text = True
                break
        for field, thought in thoughts:
            if not has_text:
                self._append_thought(thought.text, field, raw=thought.raw)
            if thought.seal:
                self._seal(thought)

    def _read_entries(self, delta: Json, field: str) -> list[Thought]:
        entries = delta.get(field)
        if not isinstance(entries, list):
            return []
        thoughts = [thought for entry in entries if (thought := read_entry(entry)) is not None]
        if len(thoughts) != len(entries):
            self._context.losses.add("", f"an entry of {field} of an unknown type was skipped")
        return thoughts

    def _read_part(self, part: object) -> None:
        """Read content in parts, which Mistral sends while its model thinks."""
        if isinstance(part, str):
            self.append_text(Text, part)
            return
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or kind not in ("text", "output_text", "thinking", "refusal"):
            self._context.losses.add("", "a content part of an unknown type was skipped")
        elif kind == "thinking":
            thinking = part.get("thinking")
            inner = thinking if isinstance(thinking, list) else [{"text": thinking}]
            for piece in inner:
                self._append_thought(
                    text_of(piece.get("text")) if isinstance(piece, dict) else "", "parts", raw=True
                )
        elif kind == "refusal":
            self.append_text(Refusal, text_of(part.get("refusal")))
        else:
            self.append_text(Text, text_of(part.get("text")))

    def _read_attachments(self, delta: Json) -> Json:
        """Read citations and images. Returns the citations that arrive after their text has closed."""
        late: list[object] = []
        annotations = delta.get("annotations")
        for value in annotations if isinstance(annotations, list) else ():
            if not isinstance(value, dict):
                continue
            if self.current.kind is Text:
                self._builder.cite(self.current.block, read_annotation(value, self._visible_before))
            else:
                late.append(value)
        images = delta.get("images")
        for value in images if isinstance(images, list) else ():
            image = read_reply_image(value)
            if image is not None:
                self.current.close()
                self.calls.make_room()
                self._builder.add_block(image)
        return {"annotations": late} if late else {}
