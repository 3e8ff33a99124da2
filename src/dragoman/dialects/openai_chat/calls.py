"""Puts tool calls together from fragments, whatever a compatible server makes of their identity.

The one place that decides which call a fragment belongs to. A fragment begins a new call when its index is
unseen, or when it names another id than the call at that index; servers that send neither are judged by
whether the call so far is already whole. A call opens once its name is certain: at once if the client
declared the name, otherwise when its arguments begin, because until then a name may come in pieces.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import msgspec

from dragoman.dialects.base import Source
from dragoman.dialects.openai_chat.repetition import Change
from dragoman.dialects.openai_chat.voice import Voice
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.content import CallKind, ToolCall
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.request import Request, iter_declared_tools
from dragoman.hub.seal import Seal
from dragoman.wire.fields import encode

#: Arguments longer than this are not looked at for being whole: their call closes with the reply.
WATCHED = 256 * 1024
#: How often one call is looked at; keeps hostile streams linear.
LOOKS = 32
HELD = 16 * 1024 * 1024
LONGEST_NAME = 1024

#: The slot of the one call that the old `function_call` field can hold.
LEGACY = -1

ENTRY_FIELDS = frozenset(("index", "id", "type", "function", "custom", "extra_content", "name", "arguments"))


class Fragment(NamedTuple):
    """What one entry of a delta says about its call; empty where it says nothing."""

    id: str
    name: str
    arguments: str
    kind: CallKind


class Call:
    """One call under way. `pieces` is its argument text while that is watched or held back."""

    __slots__ = (
        "block",
        "extras",
        "form",
        "id",
        "kind",
        "looks",
        "name",
        "pieces",
        "repeats",
        "seal",
        "size",
        "tested",
        "whole",
    )

    def __init__(self, form: str) -> None:
        self.id = ""
        self.name = ""
        self.kind: CallKind = "function"
        self.form = form
        self.block = -1
        self.seal: Seal | None = None
        self.extras: dict[str, object] = {}
        self.pieces: list[str] = []
        self.size = 0
        #: The upstream tells id or name again with later arguments, as a habit.
        self.repeats = False
        self.looks = 0
        self.tested = -1
        self.whole = False

    def said(self) -> str:
        text = "".join(self.pieces)
        self.pieces = [text]
        return text

    def is_whole(self) -> bool:
        """Whether the arguments so far are one JSON object. Free text never tells."""
        if self.tested != self.size and self.kind == "function" and self.looks < LOOKS and self.pieces:
            self.tested = self.size
            self.looks += 1
            self.whole = is_object(self.said())
        return self.whole and self.tested == self.size


def is_object(text: str) -> bool:
    """Whether a text is one whole JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(msgspec.json.decode(text.encode("utf-8", "replace")), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


class CallAssembler:
    """Turns entries of `tool_calls` into blocks of the builder. A call that opens interrupts the voice."""

    def __init__(self, source: Source, builder: ReplyBuilder, voice: Voice) -> None:
        self._source = source
        self._builder = builder
        self._voice = voice
        self._slots: dict[tuple[int, int], Call] = {}
        self._by_id: dict[str, Call] = {}
        self._held: list[Call] = []
        self._live: list[Call] = []
        self._used_ids: set[str] = set()
        self._held_size = 0
        self._count = 0
        self._last: Call | None = None
        self._certain = certain_names(source.request)

    def feed(self, entries: list[object], choice: int) -> None:
        """The `tool_calls` of one delta. Copilot spreads one answer over choices, so they are told apart."""
        for position, entry in enumerate(entries):
            if isinstance(entry, dict):
                index = entry.get("index")
                if type(index) is int:
                    call = self._slots.get((choice, index))
                    if call is not None and len(entry) == 2 and self._feed_plain(call, entry):
                        continue
                self._feed_entry(entry, choice, position)
            elif entry is not None:
                self._source.losses.add("", "an entry of tool_calls that is no object was skipped")

    def change_in(self, entry: object) -> Change | None:
        """What the next entry may say otherwise than this one, if it only brought arguments."""
        if not isinstance(entry, dict) or len(entry) != 2:
            return None
        function, index = entry.get("function"), entry.get("index")
        if type(index) is not int or not isinstance(function, dict) or len(function) != 1:
            return None
        call = self._slots.get((0, index))
        if call is None or call.block < 0 or not isinstance(function.get("arguments"), str):
            return None
        return Change(function, "arguments", partial(self._go_on, (0, index), call))

    def _go_on(self, slot: tuple[int, int], call: Call, text: str) -> bool:
        if self._slots.get(slot) is not call:
            return False
        self._last = call
        if text:
            self._append(call, text)
        return True

    def feed_legacy(self, value: dict[str, object], choice: int) -> None:
        """The `function_call` of one delta, from before there were several calls."""
        fragment = Fragment("", text_of(value.get("name")), argument_text(value.get("arguments")), "function")
        call = self._slots.get((choice, LEGACY))
        if call is None or begins_another(call, fragment):
            call = self._new((choice, LEGACY), "function_call")
        self._take(call, fragment)

    def settle(self) -> None:
        """Another block is about to open: calls that can go first do, and whole calls end."""
        self._release(len(self._held))
        self._close_whole()

    def finish(self) -> None:
        """No more fragments will come."""
        self._release(len(self._held))
        if any(call.size for call in self._held):
            self._source.losses.add("", "a tool call without a name was dropped")
        self._held.clear()

    def _feed_plain(self, call: Call, entry: dict[str, object]) -> bool:
        """The commonest entry: nothing but more arguments for an open call."""
        function = entry.get("function")
        if call.block < 0 or type(function) is not dict or len(function) != 1:
            return False
        text = function.get("arguments")
        if type(text) is not str:
            return False
        self._last = call
        if text:
            self._append(call, text)
        return True

    def _feed_entry(self, entry: dict[str, object], choice: int, position: int) -> None:
        fragment = read_fragment(entry)
        call = self._find(entry.get("index"), fragment, choice, position)
        if call.block < 0:
            rest = {name: value for name, value in entry.items() if name not in ENTRY_FIELDS}
            if rest:
                call.extras = {**rest, **call.extras}
        signature = thought_signature(entry.get("extra_content"))
        if signature:
            self._seal(call, signature)
        self._take(call, fragment)

    def _find(self, index: object, fragment: Fragment, choice: int, position: int) -> Call:
        """The call that a fragment belongs to: by index, by id, by place in the list, or the last one."""
        if type(index) is not int:
            if fragment.id in self._by_id:
                return self._by_id[fragment.id]
            index = position
            is_anonymous = not fragment.id and not fragment.name
            if is_anonymous and self._last is not None and (choice, index) not in self._slots:
                return self._last
        call = self._slots.get((choice, index))
        if call is None:
            return self._new((choice, index), "")
        if begins_another(call, fragment):
            return self._by_id.get(fragment.id) or self._new((choice, index), "")
        return call

    def _new(self, slot: tuple[int, int], form: str) -> Call:
        self._count += 1
        if self._count > self._builder.MAX_BLOCKS:
            raise UpstreamProtocolError(f"more than {self._builder.MAX_BLOCKS} tool calls in one reply")
        call = Call(form)
        self._slots[slot] = call
        self._held.append(call)
        return call

    def _take(self, call: Call, fragment: Fragment) -> None:
        self._last = call
        if fragment.id and not call.id:
            call.id = fragment.id
            self._by_id.setdefault(fragment.id, call)
        if call.block < 0:
            if fragment.kind == "custom":
                call.kind = "custom"
            if fragment.name:
                call.name = joined_name(call, fragment.name)
        if fragment.arguments:
            self._take_arguments(call, fragment)
        if call.block < 0 and call.name and (call.size or (call.id and call.name in self._certain)):
            self._release(self._held.index(call) + 1)

    def _take_arguments(self, call: Call, fragment: Fragment) -> None:
        text = fragment.arguments
        if call.size and (fragment.id or fragment.name):
            if call.is_whole() and is_object(text):
                return  # the whole call again, after its fragments
            if not call.repeats and call.pieces and is_object(text) and text.startswith(call.said()):
                text = text[call.size :]
            else:
                call.repeats = True
        if text:
            self._append(call, text)

    def _append(self, call: Call, text: str) -> None:
        call.size += len(text)
        if call.block < 0:
            call.pieces.append(text)
            self._held_size += len(text)
            if self._held_size > HELD:
                raise UpstreamProtocolError("too many arguments for tool calls without a name")
            return
        if not self._builder.is_open(call.block):
            if text.strip():
                self._source.losses.add("", "arguments that followed a whole tool call were dropped")
            return
        self._builder.append(call.block, text)
        if call.size <= WATCHED:
            call.pieces.append(text)
        elif call.pieces:
            call.pieces = []

    def _seal(self, call: Call, signature: str) -> None:
        seal = self._voice.seal_of(signature)
        if call.block < 0:
            call.seal = seal
        else:
            self._builder.seal(call.block, seal)

    def _release(self, count: int) -> None:
        """Open the first `count` held calls in their order, but for those that have no name yet."""
        ready = [call for call in self._held[:count] if call.name]
        if ready:
            self._held = [call for call in self._held[:count] if not call.name] + self._held[count:]
        for call in ready:
            self._open(call)

    def _open(self, call: Call) -> None:
        self._voice.hush()
        self._close_whole()
        identity = call.id
        if not identity or identity in self._used_ids:
            identity = self._source.ids.make("call_")
        self._used_ids.add(identity)
        block = ToolCall(id=identity, name=call.name, kind=call.kind, form=call.form, extras=call.extras)
        call.block = self._builder.open(block)
        self._live.append(call)
        if call.seal is not None:
            self._builder.seal(call.block, call.seal)
        if call.pieces:
            self._builder.append(call.block, call.said())
            self._held_size -= call.size
            if call.size > WATCHED:
                call.pieces = []

    def _close_whole(self) -> None:
        """End the calls that are whole, so that clients who take blocks one by one see the next one live."""
        still_live = []
        for call in self._live:
            if call.is_whole():
                self._builder.close(call.block)
            elif call.looks < LOOKS:
                call.looks += 1
                still_live.append(call)
        self._live = still_live


def certain_names(request: Request | None) -> frozenset[str]:
    """The declared names that cannot be the beginning of another declared name."""
    if request is None:
        return frozenset()
    names = sorted({tool.name for tool in iter_declared_tools(request)})
    return frozenset(name for name, follower in pairwise((*names, "")) if not follower.startswith(name))


def read_fragment(entry: dict[str, object]) -> Fragment:
    kind: CallKind = "function"
    body = entry.get("function")
    if isinstance(entry.get("custom"), dict) or entry.get("type") == "custom":
        kind = "custom"
        body = entry.get("custom")
    if not isinstance(body, dict):
        # Some servers leave the wrapper out.
        body = entry
    arguments = body.get("input") if kind == "custom" else body.get("arguments")
    return Fragment(
        text_of(entry.get("id")),
        text_of(body.get("name")),
        text_of(arguments) if kind == "custom" else argument_text(arguments),
        kind,
    )


def begins_another(call: Call, fragment: Fragment) -> bool:
    """Whether a fragment at the place of `call` is the start of another call."""
    if fragment.id and call.id:
        return fragment.id != call.id
    if not fragment.name:
        return False
    if call.is_whole():
        # Named again without an id to compare: the same words once more are the same call.
        return fragment.name != call.name or bool(fragment.arguments and fragment.arguments != call.said())
    if fragment.name == call.name:
        return False
    return bool(call.size and call.name) or (bool(call.name) and is_object(fragment.arguments))


def joined_name(call: Call, name: str) -> str:
    """The name after one more piece of it: said again, said in full, or continued."""
    if name.startswith(call.name):
        return name[:LONGEST_NAME]
    return call.name if call.size else (call.name + name)[:LONGEST_NAME]


def argument_text(value: object) -> str:
    """Arguments as JSON text; some servers send the object itself."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return encode(value, blame=UpstreamProtocolError).decode()
    return ""


def thought_signature(extra_content: object) -> str:
    """The seal that Google's own compatible endpoint puts on a call."""
    google = extra_content.get("google") if isinstance(extra_content, dict) else None
    return text_of(google.get("thought_signature")) if isinstance(google, dict) else ""


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""
