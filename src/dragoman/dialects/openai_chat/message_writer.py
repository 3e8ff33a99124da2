"""Writes turns as messages. For clients of this dialect every message comes out as it came in; for others
the canonical spelling is used: one string of text where there is only text, null content beside calls,
one message for each result, results before anything else the user says.
"""

from collections.abc import Sequence

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.openai_chat.message_reader import (
    BESIDE,
    ENTRY,
    FUNCTION_CALL,
    FUNCTION_ROLE,
    GOOGLE,
    OBJECT,
    UNTYPED,
)
from dragoman.dialects.openai_chat.parts import AS_PART, is_plain, plain_text, write_part
from dragoman.dialects.openai_chat.reasoning import TEXT_FIELDS, field_of, with_text, written_entry
from dragoman.dialects.openai_chat.spelling import ABSENT, AS_NULL, AS_PARTS, NAME, without_inner
from dragoman.dialects.openai_chat.voices import google_content
from dragoman.hub.content import AnyBlock, Reasoning, Refusal, Text, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object

INSTRUCTING = ("system", "developer")
SYSTEM_JOINT = "\n"
RESULT_JOINT = "\n"


class MessageWriter:
    """Writes the conversation of one request for one target."""

    def __init__(self, request: Request, target: Target, losses: Losses) -> None:
        self._own = request.dialect == NAME
        self._target = target
        self._losses = losses
        self._marks = self._own or target.caching == "breakpoints"

    def write(self, turns: Sequence[Turn]) -> list[Json]:
        messages: list[Json] = []
        for turn in turns:
            if turn.role == "assistant":
                messages += self._assistant(turn)
            elif turn.role in INSTRUCTING:
                self._add_system(turn, messages)
            else:
                messages += self._results(turn)
                messages += self._user(turn)
        if not messages and turns:
            # A conversation of nothing but emptiness is still one.
            messages.append({"role": "user", "content": ""})
        return messages

    def _add_system(self, turn: Turn, messages: list[Json]) -> None:
        """A system text; for other dialects, adjacent ones are one message."""
        developer = turn.role == "developer" and self._target.developer_role
        role = "developer" if developer else "system"
        if self._own:
            messages.append(self._finished({"role": role}, turn, turn.blocks, SYSTEM_JOINT))
            return
        content = self._content(turn.blocks, SYSTEM_JOINT)
        if not content:
            return
        last = messages[-1] if messages else {}
        before = last.get("content")
        if last.get("role") == role and isinstance(before, str) and isinstance(content, str):
            last["content"] = before + SYSTEM_JOINT + content
        else:
            messages.append({"role": role, "content": content})

    def _user(self, turn: Turn) -> list[Json]:
        blocks = tuple(block for block in turn.blocks if type(block) is not ToolResult)
        if self._own:
            return [self._finished({"role": "user"}, turn, blocks, "")] if turn.role == "user" else []
        content = self._content(blocks, "")
        is_only_emptiness = not content and (turn.blocks or turn.role != "user")
        return [] if is_only_emptiness else [{"role": "user", "content": content}]

    def _results(self, turn: Turn) -> list[Json]:
        return [self._result(block, turn) for block in turn.blocks if isinstance(block, ToolResult)]

    def _result(self, result: ToolResult, turn: Turn) -> Json:
        message: Json = {"role": "tool", "tool_call_id": result.call_id}
        if self._own and turn.role == "tool" and turn.form == FUNCTION_ROLE:
            message = {"role": "function", "name": result.name}
        shape = result.form if self._own else ""
        if shape != ABSENT:
            message["content"] = self._result_content(result, shape)
        return {**message, **turn.extras} if self._own and turn.role == "tool" else message

    def _result_content(self, result: ToolResult, shape: str) -> object:
        blocks = result.content
        if shape == AS_NULL and not blocks:
            return None
        texts = [plain_text(block) for block in blocks]
        if shape == AS_PARTS or (None in texts and self._target.media_in_results):
            return self._parts(blocks)
        for block, text in zip(blocks, texts, strict=True):
            if text is None:
                self._losses.add(block.at, "results hold nothing but text in this dialect")
        return RESULT_JOINT.join(text for text in texts if text is not None)

    def _finished(self, message: Json, turn: Turn, blocks: Sequence[AnyBlock], joint: str) -> Json:
        """An own message with the content in its own shape, and all that it said beside."""
        shape = turn.form.partition(" ")[0]
        if shape == AS_NULL and not blocks:
            message["content"] = None
        elif shape == AS_PARTS:
            message["content"] = self._parts(blocks)
        elif shape != ABSENT or blocks:
            message["content"] = self._content(blocks, joint)
        return {**message, **turn.extras}

    def _content(self, blocks: Sequence[AnyBlock], joint: str) -> str | list[Json]:
        """One string where that says it all, otherwise parts."""
        if is_plain(blocks) or (not self._marks and all(type(block) is Text for block in blocks)):
            return joint.join(block.text for block in blocks if isinstance(block, Text))
        return self._parts(blocks)

    def _parts(self, blocks: Sequence[AnyBlock]) -> list[Json]:
        parts: list[Json] = []
        for block in blocks:
            part = write_part(block, own=self._own, marks=self._marks)
            if part is None:
                self._losses.add(block.at, "has no place in a message of this dialect")
            else:
                parts.append(part)
        return parts

    def _assistant(self, turn: Turn) -> list[Json]:
        thoughts = [b for b in turn.blocks if isinstance(b, Reasoning) and not self._is_part(b)]
        calls = [block for block in turn.blocks if isinstance(block, ToolCall)]
        refusals = [b for b in turn.blocks if isinstance(b, Refusal) and not self._is_part(b)]
        apart = {id(block) for block in (*thoughts, *calls, *refusals)}
        said = [block for block in turn.blocks if id(block) not in apart]
        message: Json = {"role": "assistant"}
        if self._own and turn.form:
            message = self._finished(message, turn, said, "")
        else:
            content = self._content(said, "")
            message["content"] = content if content or not calls else None
            if self._own:
                message.update(turn.extras)
        message.update(self._thoughts(thoughts, turn))
        if refusals:
            message["refusal"] = "".join(refusal.text for refusal in refusals)
        self._add_calls(calls, message)
        # Nothing but thought, and that stayed behind: servers refuse a message without content.
        says_nothing = not self._own and message == {"role": "assistant", "content": ""}
        return [] if says_nothing else [message]

    def _is_part(self, block: Reasoning | Refusal) -> bool:
        """Whether a thought or refusal stood, and may stand, among the parts of the content."""
        return self._own and block.form.startswith(AS_PART)

    def _add_calls(self, calls: Sequence[ToolCall], message: Json) -> None:
        listed: list[Json] = []
        for call in calls:
            flags = call.form.split() if self._own else []
            if FUNCTION_CALL in flags:
                message["function_call"] = {**self._function(call, flags), **call.extras}
            else:
                listed.append(self._call(call, flags))
        if listed:
            message["tool_calls"] = listed

    def _function(self, call: ToolCall, flags: Sequence[str]) -> Json:
        if OBJECT in flags:
            return {"name": call.name, "arguments": msgspec.json.decode(call.arguments)}
        if ABSENT in flags and not call.arguments:
            return {"name": call.name}
        return {"name": call.name, "arguments": call.arguments if self._own else self._arguments(call)}

    def _arguments(self, call: ToolCall) -> str:
        """One JSON object: servers that render prompts from the arguments refuse anything else."""
        if parse_object(call.arguments) is not None:
            return call.arguments.strip() or "{}"
        self._losses.add(call.at, "arguments that are no JSON object were wrapped as text")
        return encode({"text": call.arguments}).decode()

    def _call(self, call: ToolCall, flags: Sequence[str]) -> Json:
        kind = "custom" if call.kind == "custom" else "function"
        outer, inner = without_inner(call.extras, kind) if self._own else ({}, {})
        body: Json = {"name": call.name, "input": call.arguments}
        if kind == "function":
            body = self._function(call, flags)
        written: Json = {"id": call.id, "type": kind, kind: {**body, **inner}, **outer}
        if UNTYPED in flags:
            del written["type"]
        signature = next((flag[len(GOOGLE) :] for flag in flags if flag.startswith(GOOGLE)), "")
        if signature or call.seal is not None:
            written["extra_content"] = google_content(signature or (call.seal.value if call.seal else ""))
        return written

    def _thoughts(self, thoughts: Sequence[Reasoning], turn: Turn) -> Json:
        """The fields that carry thought: entries for what is sealed or was one, a string for the rest."""
        fields: Json = {}
        texts: list[str] = []
        for thought in thoughts:
            if self._own and thought.form in TEXT_FIELDS:
                fields[thought.form] = thought.text
                continue
            entry = self._entry(thought)
            if entry is not None:
                listed = fields.setdefault(field_of(entry), [])
                if isinstance(listed, list):
                    listed.append(entry if "index" in entry or self._own else {**entry, "index": len(listed)})
            elif thought.text and (self._own or self._target.replay_reasoning):
                texts.append(thought.text)
            elif thought.text:
                self._losses.add(thought.at, "the target takes no reasoning back")
        if self._target.replay_reasoning and not texts and not self._own:
            texts = [thought.text for thought in thoughts if thought.text]
        if texts:
            fields[TEXT_FIELDS[0]] = "\n\n".join(texts)
        return {**fields, **self._beside(thoughts, turn)}

    def _entry(self, thought: Reasoning) -> Json | None:
        if thought.seal is not None:
            entry = written_entry(thought.seal, thought.text, redacted=thought.redacted)
            return {**entry, **thought.extras} if self._own else entry
        if self._own and thought.form.startswith(ENTRY):
            return with_text({"type": thought.form[len(ENTRY) :], **thought.extras}, thought.text)
        return None

    def _beside(self, thoughts: Sequence[Reasoning], turn: Turn) -> Json:
        for word in turn.form.split() if self._own else ():
            for flag, joint in BESIDE.items():
                if word.startswith(flag):
                    return {word[len(flag) :]: joint.join(thought.text for thought in thoughts)}
        return {}
