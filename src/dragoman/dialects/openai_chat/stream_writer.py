"""Writes a reply as Chat chunks that the strictest clients accept.

The role is in the first chunk only. Id, type and name of a call are in its first fragment only. Calls are
numbered without gaps. At the end come one finish reason, the usage if the client asked for it, and `[DONE]`.
A failed reply ends with an error frame. Clients append strings and merge indexed lists, so nothing else is
sent twice.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_chat.citations import write_annotation
from dragoman.dialects.openai_chat.errors import write_error
from dragoman.dialects.openai_chat.fragments import object_of
from dragoman.dialects.openai_chat.media import find_url
from dragoman.dialects.openai_chat.names import LEGACY_FUNCTIONS, NAME, has_flag
from dragoman.dialects.openai_chat.reasoning import find_list_field
from dragoman.dialects.openai_chat.reply import explode_choice
from dragoman.dialects.openai_chat.stop_reasons import FINISH_REASONS, read_cause, write_reason
from dragoman.dialects.openai_chat.stream_blocks import (
    DONE,
    GOOGLE_ISSUERS,
    ChunkFrames,
    OpenCall,
    OpenText,
    OpenThought,
    build_google_content,
    error_frame,
    write_envelope_entry,
)
from dragoman.dialects.openai_chat.usage import hides_usage, write_usage
from dragoman.dialects.openai_logprobs import write_tokens
from dragoman.dialects.pings import COMMENT_PING
from dragoman.hub.blocks import (
    Citation,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
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
from dragoman.wire.sse import Frame, FrameRun, Frames, join_frames

#: For upstreams that report no usage: text and code have about four characters per token.
CHARACTERS_PER_TOKEN = 4


class ChatStreamWriter:
    """Turns the events of one reply into frames. Citations and the seals of thoughts wait for the end."""

    # Comments are the only bytes between chunks that all Chat clients ignore.
    ping = COMMENT_PING

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._same_dialect = context.upstream == NAME
        request = context.request
        self._reports_usage = request is None or not hides_usage(
            stream=request.stream, asks_for_usage=request.include_usage
        )
        # Within this dialect they are extras of the end.
        self._shows_logprobs = not self._same_dialect and (request is None or bool(request.logprobs))
        self._legacy = has_flag(request, LEGACY_FUNCTIONS) if request is not None else None
        self._frames = ChunkFrames({}, {}, has_usage=False)
        self._shape: Json | None = None
        self._has_sent_role = False
        self._open: dict[int, OpenText | OpenThought | OpenCall] = {}
        self._calls = 0
        self._refused = False
        self._thought = False
        self._visible = 0
        self._characters = 0
        self._annotations: list[Json] = []
        self._usage: Usage | None = None

    def write(self, event: ReplyEvent) -> Frames:
        return _HANDLERS[type(event)](self, event)

    def write_run(self, run: DeltaRun) -> Sequence[Frame | FrameRun]:
        written = None if self._legacy else self._frames.run(self._open[run.index], run)
        if written is None:
            return join_frames(map(self.write, run.expand()))
        characters = run.characters
        self._characters += characters
        self._visible += characters if run.kind is TextDelta else 0
        return (written,)

    def count_text(self, characters: int) -> None:
        """Count text deltas that were written with the bytes around the last one."""
        self._characters += characters
        self._visible += characters

    def _on_reply_started(self, event: ReplyStarted) -> Frames:
        context = self._context
        identity: Json = {
            "id": event.id if self._same_dialect and event.id else context.ids.adopt("chatcmpl-", event.id),
            "object": "chat.completion.chunk",
            "created": context.created or event.created,
            "model": context.model or event.model,
        }
        extras: Json = {}
        if self._same_dialect:
            extras = object_of(event.extras.get("chunk"))
            delta = event.extras.get("delta")
            self._shape = delta if isinstance(delta, dict) else None
        self._frames = ChunkFrames(identity, extras, has_usage=self._reports_usage)
        return ()

    def _write_role(self, first: ReplyBlock | None = None) -> Frames:
        """The first chunk, with the role. It has no content if the reply starts with a call."""
        if self._has_sent_role:
            return ()
        self._has_sent_role = True
        content = None if isinstance(first, ToolCall | Reasoning | Refusal) else ""
        shape = {"refusal": None} if self._shape is None else self._shape
        return self._frames.delta({"role": "assistant", "content": content, **shape})

    def _on_block_opened(self, event: BlockOpened) -> Frames:
        block = event.block
        return self._write_role(block) + _OPENERS[type(block)](self, event.index, block)

    def _open_text(self, index: int, block: Text) -> Frames:
        opened = self._open[index] = OpenText("content", self._visible)
        opened.seal = block.seal
        for citation in block.citations:
            self._annotate(opened, citation)
        return self._on_text_delta(TextDelta(index, block.text)) if block.text else ()

    def _open_refusal(self, index: int, block: Refusal) -> Frames:
        self._open[index] = OpenText("refusal")
        self._refused = True
        return self._on_text_delta(TextDelta(index, block.text)) if block.text else ()

    def _open_thought(self, index: int, block: Reasoning) -> Frames:
        self._open[index] = OpenThought(block, same_dialect=self._same_dialect)
        return join_frames(
            self._on_reasoning_delta(ReasoningDelta(index, *pair[::-1])) for pair in enumerate(block.parts)
        )

    def _open_call(self, index: int, block: ToolCall) -> Frames:
        if self._legacy is None:
            self._legacy = self._same_dialect and block.form == "function_call"
        number = self._calls
        if self._legacy and number:
            number = -1
            self._lose("a further tool call: the client's old form of functions has room for one")
        self._calls += 1
        call = self._open[index] = OpenCall(block, number)
        if block.seal is None or block.seal.issuer in GOOGLE_ISSUERS:
            return self._write_first_fragment(call, block.seal)
        return self._write_first_fragment(call, None) + self._on_seal_attached(
            SealAttached(index, block.seal)
        )

    def _write_first_fragment(self, call: OpenCall, seal: Seal | None) -> Frames:
        """The first fragment of a call, with id, type and name; a call that is whole has no other."""
        block = call.block
        arguments = call.take_arguments(block.arguments)
        self._characters += len(arguments)
        if call.number < 0:
            return ()
        if self._legacy:
            return self._frames.delta({"function_call": {"name": block.name, "arguments": arguments}})
        fragment = call.build_first_fragment(seal, arguments, same_dialect=self._same_dialect)
        return self._frames.delta({"tool_calls": [fragment]})

    def _open_media(self, index: int, block: Media) -> Frames:
        if block.kind != "image" or not (block.url or block.data):
            return self._lose(f"generated media of kind {block.kind!r}")
        image: Json = {"type": "image_url", "image_url": {"url": find_url(block)}}
        return self._frames.entries("images", [image])

    def _open_opaque(self, index: int, block: Opaque) -> Frames:
        if self._same_dialect and block.kind == "choice":
            choice = {"finish_reason": "stop", **block.value}
            number = choice.get("index")
            return join_frames(
                self._frames.choice(piece)
                for piece in explode_choice(choice, number if type(number) is int else 1)
            )
        if not block.text:
            return self._lose(f"a block of kind {block.kind!r}")
        self._lose(f"the structure of a block of kind {block.kind!r}")
        self._visible += len(block.text)
        return self._frames.delta({"content": block.text})

    def _open_hosted(self, index: int, block: HostedCall | HostedResult) -> Frames:
        return self._lose("the work of a vendor's own tool")

    def _lose(self, what: str) -> Frames:
        self._context.losses.add("", f"{what} cannot be written in this dialect")
        return ()

    def _on_text_delta(self, event: TextDelta) -> Frames:
        opened = self._open[event.index]
        size = len(event.text)
        self._characters += size
        if type(opened) is OpenText and opened.field == "content":
            self._visible += size
            return self._frames.content(event.text)
        return self._frames.delta({"refusal": event.text})

    def _on_arguments_delta(self, event: ArgumentsDelta) -> Frames:
        opened = self._open[event.index]
        if not isinstance(opened, OpenCall):
            return ()
        text = opened.take_arguments(event.text)
        return self._write_fragment(opened, text) if text else ()

    def _write_fragment(self, call: OpenCall, text: str) -> Frames:
        self._characters += len(text)
        if call.number < 0:
            return ()
        if self._legacy:
            return self._frames.delta({"function_call": {"arguments": text}})
        return self._frames.arguments(call.number, text, custom=call.block.kind == "custom")

    def _on_reasoning_delta(self, event: ReasoningDelta) -> Frames:
        opened = self._open[event.index]
        if not isinstance(opened, OpenThought) or not event.text:
            return ()
        text = event.text
        self._characters += len(text)
        pieces = opened.parts.get(event.part)
        if pieces is None:
            opened.parts[event.part] = [text]
            # All thoughts are in one string, so a blank line separates their parts.
            if self._thought and (not self._same_dialect or len(opened.parts) > 1):
                text = "\n\n" + text
        else:
            pieces.append(text)
        self._thought = True
        return self._frames.delta({opened.field: text})

    def _on_seal_attached(self, event: SealAttached) -> Frames:
        opened = self._open[event.index]
        if not isinstance(opened, OpenCall):
            opened.seal = event.seal
            return ()
        if opened.number < 0 or self._legacy:
            return self._lose("the seal of a call in the old form of functions")
        if event.seal.issuer not in GOOGLE_ISSUERS:
            carried = SealedItem(kind="call", seal=event.seal, call_id=opened.block.id)
            return self._frames.entries("reasoning_details", [write_envelope_entry(carried)])
        empty: Json = {"input": ""} if opened.block.kind == "custom" else {"arguments": ""}
        kind = "custom" if opened.block.kind == "custom" else "function"
        fragment = {
            "index": opened.number,
            kind: empty,
            "extra_content": build_google_content(event.seal.value),
        }
        return self._frames.delta({"tool_calls": [fragment]})

    def _on_citation_added(self, event: CitationAdded) -> Frames:
        opened = self._open[event.index]
        if isinstance(opened, OpenText):
            self._annotate(opened, event.citation)
        return ()

    def _annotate(self, opened: OpenText, citation: Citation) -> None:
        annotation = write_annotation(citation, opened.before, same_dialect=self._same_dialect)
        if annotation is None:
            self._lose("a citation that names no page")
        else:
            self._annotations.append(annotation)

    def _on_block_closed(self, event: BlockClosed) -> Frames:
        opened = self._open.pop(event.index, None)
        if isinstance(opened, OpenCall):
            # Applications parse the arguments without a check, so missing arguments become an empty object.
            if opened.has_arguments or opened.block.kind == "custom":
                return ()
            return self._write_fragment(opened, "{}")
        if isinstance(opened, OpenThought):
            details = opened.write_details()
            return join_frames(self._frames.entries(find_list_field(entry), [entry]) for entry in details)
        written: Frames = ()
        if event.logprobs and self._shows_logprobs:
            tokens: Json = {"content": write_tokens(event.logprobs), "refusal": None}
            written = self._frames.choice(
                {"index": 0, "delta": {}, "logprobs": tokens, "finish_reason": None}
            )
        if opened is not None and opened.seal is not None:
            carried = write_envelope_entry(SealedItem(kind="text", seal=opened.seal))
            written += self._frames.entries("reasoning_details", [carried])
        return written

    def _on_usage_reported(self, event: UsageReported) -> Frames:
        self._usage = self._usage.merge(event.usage) if self._usage else event.usage
        return ()

    def _on_reply_finished(self, event: ReplyFinished) -> Frames:
        extras = event.extras if self._same_dialect else {}
        written = self._write_role()
        later = object_of(extras.get("chunk"))
        if later:
            self._frames.learn(later)
        delta = dict(object_of(extras.get("delta")))
        late = delta.pop("annotations", None)
        annotations = [*self._annotations, *(late if isinstance(late, list) else ())]
        if delta:
            written += self._frames.delta(delta)
        if event.explanation and event.cause == "refusal" and not self._refused:
            written += self._frames.delta({"refusal": event.explanation})
        if annotations:
            written += self._frames.delta({"annotations": annotations})
        choice: Json = {
            "index": 0,
            "delta": {},
            "logprobs": None,
            **object_of(extras.get("choice")),
            "finish_reason": self._choose_reason(event),
        }
        written += self._frames.choice(choice)
        usage = self._final_usage() if self._reports_usage else None
        if usage is not None:
            written += self._frames.usage(usage)
        return written + DONE

    def _choose_reason(self, event: ReplyFinished) -> str:
        raw = event.raw_cause
        if (
            self._same_dialect
            and raw in FINISH_REASONS - {"function_call"}
            and read_cause(raw) == event.cause
        ):
            reason = raw
        else:
            reason = write_reason(event.cause, has_refusal_text=self._refused)
        if self._calls and reason in ("stop", "tool_calls"):
            return "function_call" if self._legacy else "tool_calls"
        return reason

    def _final_usage(self) -> Json | None:
        """The counts, or an estimate if another dialect's upstream reports none: applications need counts."""
        usage = self._usage
        if self._same_dialect:
            return write_usage(usage, same_dialect=True) if usage is not None else None
        usage = usage or Usage()
        if usage.input is None or usage.output is None:
            self._context.losses.add(
                "usage", "the upstream did not count all tokens: some counts are estimates"
            )
            guess = Usage(
                input=self._context.input_estimate if usage.input is None else usage.input,
                output=self._characters // CHARACTERS_PER_TOKEN if usage.output is None else usage.output,
            )
            usage = usage.merge(guess)
        return write_usage(usage, same_dialect=False)

    def _on_reply_failed(self, event: ReplyFailed) -> Frames:
        return error_frame(write_error(event.failure))


_OPENERS: dict[type, Callable[[ChatStreamWriter, int, Any], Frames]] = {
    Text: ChatStreamWriter._open_text,
    Refusal: ChatStreamWriter._open_refusal,
    Reasoning: ChatStreamWriter._open_thought,
    ToolCall: ChatStreamWriter._open_call,
    Media: ChatStreamWriter._open_media,
    Opaque: ChatStreamWriter._open_opaque,
    HostedCall: ChatStreamWriter._open_hosted,
    HostedResult: ChatStreamWriter._open_hosted,
}

_HANDLERS: dict[type, Callable[[ChatStreamWriter, Any], Frames]] = {
    TextDelta: ChatStreamWriter._on_text_delta,
    ArgumentsDelta: ChatStreamWriter._on_arguments_delta,
    ReasoningDelta: ChatStreamWriter._on_reasoning_delta,
    SealAttached: ChatStreamWriter._on_seal_attached,
    CitationAdded: ChatStreamWriter._on_citation_added,
    BlockOpened: ChatStreamWriter._on_block_opened,
    BlockClosed: ChatStreamWriter._on_block_closed,
    UsageReported: ChatStreamWriter._on_usage_reported,
    ReplyStarted: ChatStreamWriter._on_reply_started,
    ReplyFinished: ChatStreamWriter._on_reply_finished,
    ReplyFailed: ChatStreamWriter._on_reply_failed,
}
