"""Turns as contents: roles `user` and `model`, calls and results as objects, signatures where they belong.

Gemini demands its signature on the first call of each of its turns. A call that it never made has none,
and gets the documented excuse instead.
"""

from collections.abc import Iterable

from dragoman.dialects.base import Json
from dragoman.dialects.gemini import forms
from dragoman.dialects.gemini.calls import NO_ARGUMENTS, NO_ID
from dragoman.dialects.gemini.history_reader import ROLE_WORDS
from dragoman.dialects.gemini.part_writer import write_part
from dragoman.dialects.gemini.results import write_result
from dragoman.dialects.gemini.signature import BARE, ISSUER, SENTINEL
from dragoman.hub.content import AnyBlock, Reasoning, Refusal, Text, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.hub.seal import Seal
from dragoman.providers.profile import Target
from dragoman.wire.partial_json import parse_object, wrap_as_object


class HistoryWriter:
    """Writes the turns of one request."""

    def __init__(self, request: Request, target: Target, losses: Losses) -> None:
        self._turns = request.turns
        self._native = request.dialect == ISSUER
        self._issuers = (target.issuer, ISSUER)
        self._losses = losses
        self._names = {
            block.id: block.name
            for turn in request.turns
            for block in turn.blocks
            if isinstance(block, ToolCall)
        }

    def system(self) -> object:
        """`systemInstruction`, or None."""
        turns = self._turns[: self._leading()]
        if not turns:
            return None
        if self._native and len(turns) == 1:
            return self._content(turns[0], default_role="")
        parts = self._parts([block for turn in turns for block in turn.blocks])
        return {"parts": parts} if parts else None

    def contents(self) -> list[object]:
        contents: list[object] = []
        for turn in self._turns[self._leading() :]:
            content = self._content(turn, default_role=ROLE_WORDS[turn.role])
            if self._native or (isinstance(content, dict) and content.get("parts")):
                contents.append(content)
        return contents

    def _leading(self) -> int:
        """How many turns the system instruction is made of."""
        for index, turn in enumerate(self._turns):
            top = forms.TOP in turn.form.split() if self._native and turn.form else True
            if turn.role not in ("system", "developer") or not top:
                return index
        return len(self._turns)

    def _content(self, turn: Turn, *, default_role: str) -> object:
        words = turn.form.split(" ") if self._native else []
        parts = self._parts(turn.blocks)
        if forms.TEXT_ONLY in words:
            return _only_text(turn)
        if forms.BARE_PART in words:
            return parts[0] if parts else {}
        content: Json = dict(turn.extras) if self._native else {}
        if forms.TEXT_PART in words:
            content["parts"] = _only_text(turn)
        elif forms.ONE_PART in words:
            content["parts"] = parts[0] if parts else {}
        elif forms.NO_PARTS not in words:
            content["parts"] = parts
        said = forms.value_of(turn.form, forms.ROLE) if self._native else None
        role = default_role if said is None else said
        if (role or said is not None) and forms.NO_ROLE not in words:
            content["role"] = role
        return content

    def _parts(self, blocks: Iterable[AnyBlock]) -> list[object]:
        parts: list[object] = []
        calls = 0
        for block in blocks:
            part = self._part(block, first_call=not calls)
            calls += isinstance(block, ToolCall)
            if part is not None:
                parts.append(part)
        return parts

    def _part(self, block: AnyBlock, *, first_call: bool) -> object:
        match block:
            case Text():
                return self._text(block)
            case Refusal():
                return {"text": block.text} if block.text else None
            case Reasoning():
                return self._thought(block)
            case ToolCall():
                return self._call(block, first=first_call)
            case ToolResult():
                name = self._names.get(block.call_id, block.call_id)
                return write_result(block, name, native=self._native, losses=self._losses)
            case _:
                return write_part(block, native=self._native, losses=self._losses)

    def _signature(self, seal: Seal | None, form: str) -> Json:
        if seal is not None and seal.issuer in self._issuers:
            return {"thoughtSignature": seal.value}
        excuse = forms.value_of(form, forms.SIGNATURE) if self._native else None
        return {"thoughtSignature": excuse} if excuse else {}

    def _text(self, text: Text) -> object:
        signature = self._signature(text.seal, text.form)
        if not self._native:
            return {"text": text.text, **signature} if text.text or signature else None
        words = text.form.split(" ")
        if forms.STRING in words:
            return text.text
        said: Json = {} if BARE in words else {"text": text.text}
        return {**said, **signature, **text.extras}

    def _thought(self, thought: Reasoning) -> Json | None:
        signature = self._signature(thought.seal, thought.form)
        words = thought.form.split(" ") if self._native else []
        said: Json = {} if BARE in words else {"text": thought.text}
        if thought.parts or forms.THOUGHT in words:
            said["thought"] = True
        elif not signature:
            # Nothing was said and nothing is proven: what is left belongs to another vendor.
            return None
        return {**said, **signature, **(thought.extras if self._native else {})}

    def _call(self, call: ToolCall, *, first: bool) -> Json:
        words = call.form.split(" ") if self._native else []
        arguments = parse_object(call.arguments) if call.kind != "custom" else {"input": call.arguments}
        if arguments is None:
            self._losses.add(call.at, "arguments that are no JSON object were wrapped as text")
            arguments = wrap_as_object(call.arguments)
        function: Json = {"name": call.name, "args": arguments, "id": call.id}
        if NO_ID in words:
            del function["id"]
        if NO_ARGUMENTS in words and not arguments:
            del function["args"]
        signature = self._signature(call.seal, call.form)
        if first and not signature and (not self._native or forms.UNWRAPPED in words):
            signature = {"thoughtSignature": SENTINEL}
        extras = dict(call.extras) if self._native else {}
        inside = extras.pop("functionCall", None)
        if isinstance(inside, dict):
            function |= inside
        return {"functionCall": function, **signature, **extras}


def _only_text(turn: Turn) -> str:
    return "".join(block.text for block in turn.blocks if isinstance(block, Text))
