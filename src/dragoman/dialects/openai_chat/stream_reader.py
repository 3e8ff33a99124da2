"""Reads the chunks of a Chat stream, from OpenAI or from a compatible server.

The reply ends at `[DONE]` or with the bytes, not at the finish reason: usage, and sometimes content, follow
it. Without a finish reason and without `[DONE]` the reply is truncated. Unknown fields of chunks, choices
and deltas are kept in the extras of the start and of the end.
"""

from typing import ClassVar

from dragoman.dialects.delta_template import PADDING
from dragoman.dialects.errors import read_failure
from dragoman.dialects.frames import FrameReader
from dragoman.dialects.interfaces import ClientContext, Json, UpstreamContext
from dragoman.dialects.openai_chat.deltas import CALL_FIELDS, DeltaReader
from dragoman.dialects.openai_chat.fragments import text_of
from dragoman.dialects.openai_chat.names import NAME
from dragoman.dialects.openai_chat.reasoning import TEXT_FIELDS
from dragoman.dialects.openai_chat.reply import ChoiceAccumulator, collect, explode
from dragoman.dialects.openai_chat.stop_reasons import FAILURE_OF_REASON, read_cause
from dragoman.dialects.openai_chat.stream_writer import ChatStreamWriter
from dragoman.dialects.openai_chat.usage import read_usage
from dragoman.hub.blocks import Opaque
from dragoman.hub.errors import Failure, UpstreamProtocolError
from dragoman.hub.events import ReplyFinished, ReplyStarted, StopCause
from dragoman.wire.sse import Frame, join_frames

#: Fields of chunks and choices that the hub knows, or that have no meaning.
CHUNK_FIELDS = frozenset(("id", "object", "created", "model", "choices", "usage", "obfuscation", "error"))
CHOICE_FIELDS = frozenset(("index", "delta", "message", "finish_reason", "logprobs", "usage", "error"))

#: Fields of the first delta that may have an empty value, which the writer repeats.
SHAPE_FIELDS = frozenset(("content", "refusal", *TEXT_FIELDS))

#: The fields in which vLLM and SGLang name the stop sequence.
STOP_STRING_FIELDS = ("stop_reason", "matched_stop")

#: The field in which OpenRouter repeats the reason of the provider; `finish_reason` may be a plain `stop`.
NATIVE_REASON = "native_finish_reason"

#: The number of further answers (`n` > 1), which are kept in memory until the end.
MOST_ALTERNATIVES = 128


class ChatStreamReader(FrameReader):
    """Turns the first answer into events; further answers (`n` > 1) become opaque blocks at the end."""

    varying: ClassVar = {"obfuscation": PADDING}

    def __init__(self, context: UpstreamContext) -> None:
        super().__init__(context)
        self._deltas = DeltaReader(context, self.builder)
        self._alternatives: dict[int, ChatStreamReader] = {}
        self._reason = ""
        #: The reply is a whole body, which cannot be truncated.
        self._is_whole = False
        self._stop_string: str | None = None
        self._usage: object = None
        self._shape: Json = {}
        self._chunk: Json = {}
        self._later_chunk: Json = {}
        self._rest = ChoiceAccumulator(UpstreamProtocolError)

    def _read(self, payload: Json, event: str) -> None:
        # Chunks after the end are not part of the reply.
        if self.builder.is_ended or (self.builder.is_started and self._read_plain(payload)):
            return
        if self._read_failure(payload, event):
            return
        choices = payload.get("choices")
        if isinstance(choices, list):
            if choices or payload.get("id"):
                self._start(payload, choices)
            for position, choice in enumerate(choices):
                if isinstance(choice, dict) and not self.builder.is_ended:
                    self._read_choice(choice, position)
        elif "usage" not in payload:
            self.context.losses.add("", "a stream payload without choices was skipped")
        self._read_usage(payload)
        self._note_chunk(payload)

    def _read_plain(self, payload: Json) -> bool:
        """Read a chunk that only continues the open blocks, as most do. False for any other chunk."""
        choices = payload.get("choices")
        if type(choices) is not list or len(choices) != 1 or payload.get("usage") or payload.get("error"):
            return False
        choice = choices[0]
        if type(choice) is not dict or choice.get("finish_reason") or choice.get("logprobs"):
            return False
        delta = choice.get("delta")
        if type(delta) is not dict or len(delta) != 1 or choice.get("index"):
            return False
        if not self._deltas.read_plain(delta):
            return False
        if self._template.can_learn and (change := self._deltas.find_change(delta)) is not None:
            self._template.learn(self._frame, payload, change)
        return True

    def _read_text(self, frame: Frame) -> None:
        if self.builder.is_ended:
            return
        if frame.data.strip() == b"[DONE]":
            # Without a chunk before it there is no answer.
            if self.builder.is_started:
                self._finish()
        elif frame.event == "error":
            self.builder.fail(read_failure(str(frame.data, "utf-8", "replace")))
        else:
            super()._read_text(frame)

    def _read_whole(self, body: Json) -> None:
        self._is_whole = True
        self._read_frames(explode(body))

    def _end(self) -> None:
        if self._reason:
            self._finish()

    def _read_failure(self, payload: Json, event: str) -> bool:
        """Read an error, which may be in any chunk and in many forms. False if there is none."""
        groq = payload.get("x_groq")
        if payload.get("error"):
            self.builder.fail(read_failure(payload))
        elif isinstance(groq, dict) and groq.get("error"):
            self.builder.fail(read_failure(groq))
        elif payload.get("choices"):
            return False
        elif event == "error" or payload.get("object") == "error" or payload.get("type") == "error":
            self.builder.fail(read_failure(payload))
        return self.builder.is_ended

    def _start(self, payload: Json, choices: list[object]) -> None:
        """Start the reply with the unknown fields of the first chunk and the empty values of its delta."""
        if self.builder.is_started:
            return
        first = choices[0] if choices else None
        delta = first.get("delta") if isinstance(first, dict) else None
        extras: Json = {}
        self._chunk = {name: value for name, value in payload.items() if name not in CHUNK_FIELDS}
        if self._chunk:
            extras["chunk"] = self._chunk
        if isinstance(delta, dict):
            self._shape = {
                name: value for name, value in delta.items() if name in SHAPE_FIELDS and value in (None, "")
            }
            extras["delta"] = self._shape
        created = payload.get("created")
        self._deltas.current.model = model = text_of(payload.get("model"))
        self.builder.start(
            ReplyStarted(
                id=text_of(payload.get("id")),
                model=model,
                created=created if type(created) is int else 0,
                extras=extras,
            )
        )

    def _note_chunk(self, payload: Json) -> None:
        for name, value in payload.items():
            if name not in CHUNK_FIELDS and self._chunk.get(name) != value:
                self._later_chunk[name] = value

    def _read_choice(self, choice: Json, position: int) -> None:
        index = choice.get("index")
        index = index if type(index) is int else position
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")
        delta = delta if isinstance(delta, dict) else {}
        if index and self._is_alternative(index, delta):
            self._alternatives[index].read_alone(choice)
            return
        rest = self._deltas.read(delta, index, choice.get("logprobs"))
        self._note_choice(choice, rest)
        self._report(choice.get("usage"))
        reason = choice.get("finish_reason")
        if choice.get("error"):
            self.builder.fail(read_failure(choice))
        elif isinstance(reason, str) and reason:
            self._read_reason(reason, choice)

    def _read_reason(self, reason: str, choice: Json) -> None:
        failure = FAILURE_OF_REASON.get(reason)
        if failure is not None:
            self.builder.fail(Failure(kind=failure, message=f"the upstream broke off: {reason}", status=502))
            return
        native = text_of(choice.get(NATIVE_REASON))
        if read_cause(native) == "malformed_call":
            reason = native
        # If one answer has several choices, the most specific finish reason counts.
        if not self._reason or read_cause(self._reason) == "end":
            self._reason = reason
        for field in STOP_STRING_FIELDS:
            found = choice.get(field)
            if isinstance(found, str) and found:
                self._stop_string = found

    def _note_choice(self, choice: Json, delta: Json) -> None:
        """Keep the unknown fields of a choice, and its log probabilities."""
        rest: Json = {name: value for name, value in choice.items() if name not in CHOICE_FIELDS}
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            rest["logprobs"] = logprobs
        if delta:
            rest["delta"] = delta
        if rest:
            self._rest.feed(rest)

    def _is_alternative(self, index: int, delta: Json) -> bool:
        """Whether a further choice is another answer, or part of the first (Copilot splits an answer).

        The request decides. Without a request, a choice with text is an answer, a choice with only calls is
        not.
        """
        request = self.context.request
        known = self._alternatives.get(index)
        has_calls = any(delta.get(field) for field in CALL_FIELDS)
        if request is not None:
            is_own = (request.candidates or 1) > 1
        elif known is not None:
            is_own = known.has_text or not has_calls
        else:
            is_own = not has_calls and ("role" in delta or bool(delta.get("content")))
        if not is_own:
            self._alternatives.pop(index, None)
        elif known is None:
            if len(self._alternatives) >= MOST_ALTERNATIVES:
                raise UpstreamProtocolError(f"more than {MOST_ALTERNATIVES} choices in one reply")
            self._alternatives[index] = ChatStreamReader(self.context)
        return is_own

    @property
    def has_text(self) -> bool:
        return self._deltas.visible > 0

    def read_alone(self, choice: Json) -> None:
        """Read a choice of a further answer, as if it were the only one."""
        self._read({"choices": [{**choice, "index": 0}]}, "")

    def build_alternative(self, number: int) -> Opaque:
        """The further answer as a whole choice."""
        self._finish()
        writer = ChatStreamWriter(ClientContext(upstream=NAME, ids=self.context.ids))
        body = collect(join_frames(map(writer.write, self.builder.take())))
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not choice:
            self.context.losses.add(f"choices[{number}]", "this answer failed")
        return Opaque(kind="choice", value={**choice, "index": number}, at=f"choices[{number}]")

    def _read_usage(self, payload: Json) -> None:
        usage = payload.get("usage")
        groq = payload.get("x_groq")
        if not isinstance(usage, dict) and isinstance(groq, dict):
            usage = groq.get("usage")
        self._report(usage)

    def _report(self, usage: object) -> None:
        if isinstance(usage, dict) and usage != self._usage:
            self._usage = usage
            counted = read_usage(usage)
            if counted.input is not None or counted.output is not None:
                self.builder.report_usage(counted)

    def _finish(self) -> None:
        self._deltas.calls.finish()
        cause: StopCause = read_cause(self._reason) if self._reason else "end"
        if cause == "end" and self._stop_string is not None:
            cause = "stop_sequence"
        elif cause == "end" and self._deltas.refused:
            cause = "refusal"
        finished = ReplyFinished(
            cause=cause,
            raw_cause=self._reason,
            stop_sequence=self._stop_string,
            implied=not self._reason and not self._is_whole,
            extras=self._collect_last_extras(),
        )
        # Further answers are answers: only a reply without them can be one without content.
        if not self._alternatives and self.builder.fail_if_unanswered(finished):
            return
        self.builder.close_all()
        for number, index in enumerate(sorted(self._alternatives), 1):
            self.builder.add_block(self._alternatives[index].build_alternative(number))
        self.builder.finish(finished)

    def _collect_last_extras(self) -> Json:
        """The extras of the end: unknown fields of later chunks, and accumulated unknown fields of deltas."""
        rest = self._rest.result()
        del rest["index"]
        delta = rest.pop("message")
        extras: Json = {}
        if (
            self._deltas.has_string_content
            and not self._deltas.visible
            and self._shape.get("content", 0) is None
        ):
            delta = {"content": "", **(delta if isinstance(delta, dict) else {})}
        if delta:
            extras["delta"] = delta
        if rest:
            extras["choice"] = rest
        if self._later_chunk:
            extras["chunk"] = self._later_chunk
        return extras
