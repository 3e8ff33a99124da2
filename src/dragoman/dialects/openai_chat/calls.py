"""Assembles tool calls from fragments, also of compatible servers that identify calls badly.

Only this module decides which call a fragment belongs to. A fragment starts a new call if its index is new,
or if its id differs from the id of the call at that index. Without index and id, it starts a new call if the
current call is complete. A call opens when its name is certain: at once if the client declared the name,
otherwise when its arguments start, because until then a name may arrive in pieces. A call without an id waits
for it, and a call that skips an index waits for the call before it, as long as no complete call must be sent.
"""

from bisect import insort_right
from functools import partial

import msgspec

from dragoman.dialects.delta_template import TextChange
from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.openai_chat.fragments import (
    Fragment,
    find_certain_names,
    read_arguments,
    read_fragment,
    read_thought_signature,
    text_of,
)
from dragoman.dialects.openai_chat.stream_blocks import CurrentBlock
from dragoman.hub.blocks import CallKind, ToolCall
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.events import count_characters
from dragoman.hub.seal import Seal

#: Longer arguments are not tested for completeness: their call closes with the reply.
WATCHED = 256 * 1024
#: How often one call is tested; this keeps the work linear for hostile streams.
LOOKS = 32
HELD = 16 * 1024 * 1024
LONGEST_NAME = 1024
#: The slot of the one call in the old `function_call` field.
LEGACY = -1

ENTRY_FIELDS = frozenset(("index", "id", "type", "function", "custom", "extra_content", "name", "arguments"))


class PendingChatCall:
    """A call whose fragments arrive. `pieces` is its argument text while it is tested or held back."""

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
        "slot",
        "tested",
        "whole",
    )

    def __init__(self, slot: tuple[int, int], form: str) -> None:
        #: The choice and the index.
        self.slot = slot
        self.id = ""
        self.name = ""
        self.kind: CallKind = "function"
        self.form = form
        self.block = -1
        self.seal: Seal | None = None
        self.extras: dict[str, object] = {}
        self.pieces: list[str] = []
        self.size = 0
        #: The upstream repeats id or name with later arguments.
        self.repeats = False
        self.looks = 0
        self.tested = -1
        self.whole = False

    def join_arguments(self) -> str:
        text = "".join(self.pieces)
        self.pieces = [text]
        return text

    def is_whole(self) -> bool:
        """Whether the arguments so far are one JSON object. Unknown for free text, so always False."""
        if self.tested != self.size and self.kind == "function" and self.looks < LOOKS and self.pieces:
            self.tested = self.size
            self.looks += 1
            self.whole = is_object(self.join_arguments())
        return self.whole and self.tested == self.size


def is_object(text: str) -> bool:
    """Whether a text is one complete JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(msgspec.json.decode(text.encode("utf-8", "replace")), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


class CallAssembler:
    """Turns entries of `tool_calls` into blocks of the builder. An opening call closes the current block."""

    def __init__(self, context: UpstreamContext, builder: ReplyBuilder, current: CurrentBlock) -> None:
        self._context = context
        self._builder = builder
        self._current = current
        self._slots: dict[tuple[int, int], PendingChatCall] = {}
        self._by_id: dict[str, PendingChatCall] = {}
        #: Calls that are not open yet, in the order of their indexes.
        self._held: list[PendingChatCall] = []
        self._live: list[PendingChatCall] = []
        self._used_ids: set[str] = set()
        self._held_size = 0
        self._count = 0
        self._last: PendingChatCall | None = None
        self._certain = find_certain_names(context.request)

    def feed(self, entries: list[object], choice: int) -> None:
        """Add the `tool_calls` of one delta. Copilot spreads one answer over several choices."""
        for position, entry in enumerate(entries):
            if isinstance(entry, dict):
                index = entry.get("index")
                if type(index) is int:
                    call = self._slots.get((choice, index))
                    if call is not None and len(entry) == 2 and self._feed_plain(call, entry):
                        continue
                self._feed_entry(entry, choice, position)
            elif entry is not None:
                self._context.losses.add("", "an entry of tool_calls that is no object was skipped")

    def find_change(self, entry: object) -> TextChange | None:
        """The text that may differ in the next entry, if this one had only arguments."""
        if not isinstance(entry, dict) or len(entry) != 2:
            return None
        function, index = entry.get("function"), entry.get("index")
        if type(index) is not int or not isinstance(function, dict) or len(function) != 1:
            return None
        call = self._slots.get((0, index))
        if call is None or call.block < 0 or not isinstance(function.get("arguments"), str):
            return None
        take = partial(self._continue, (0, index), call)
        return TextChange(function, "arguments", take, partial(self._continue_run, (0, index), call))

    def _continue(self, slot: tuple[int, int], call: PendingChatCall, text: str) -> bool:
        if self._slots.get(slot) is not call:
            return False
        self._last = call
        if text:
            self._append(call, text)
        return True

    def _continue_run(self, slot: tuple[int, int], call: PendingChatCall, texts: list[str]) -> bool:
        characters = count_characters(texts)
        is_open = self._slots.get(slot) is call and self._builder.is_open(call.block)
        if not is_open or call.size + characters > WATCHED:
            return all(self._continue(slot, call, text) for text in texts)
        self._last = call
        call.size += characters
        call.pieces += texts
        self._builder.append_run(call.block, texts, characters)
        return True

    def feed_legacy(self, value: dict[str, object], choice: int) -> None:
        """Add the `function_call` of one delta, the older field for a single call."""
        fragment = Fragment(
            "", text_of(value.get("name")), read_arguments(value.get("arguments")), "function"
        )
        call = self._slots.get((choice, LEGACY))
        if call is None or is_new_call(call, fragment):
            call = self._new((choice, LEGACY), "function_call")
        self._add_fragment(call, fragment)

    def make_room(self) -> None:
        """Open the held calls that can open, and close complete calls, before another block opens."""
        self._open_held(len(self._held))
        self._close_complete()

    def finish(self) -> None:
        """Open all calls and close the complete ones: no more fragments follow."""
        self.make_room()
        if any(call.size for call in self._held):
            self._context.losses.add("", "a tool call without a name was dropped")
        self._held.clear()

    def _feed_plain(self, call: PendingChatCall, entry: dict[str, object]) -> bool:
        """Add an entry that has only more arguments for an open call, as most have. False for any other."""
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
        signature = read_thought_signature(entry.get("extra_content"))
        if signature:
            self._seal(call, signature)
        self._add_fragment(call, fragment)

    def _find(self, index: object, fragment: Fragment, choice: int, position: int) -> PendingChatCall:
        """The call of a fragment: by index, by id, by position in the list, or the last call."""
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
        if is_new_call(call, fragment):
            return self._by_id.get(fragment.id) or self._new((choice, index), "")
        return call

    def _new(self, slot: tuple[int, int], form: str) -> PendingChatCall:
        self._count += 1
        if self._count > self._builder.MAX_BLOCKS:
            raise UpstreamProtocolError(f"more than {self._builder.MAX_BLOCKS} tool calls in one reply")
        call = PendingChatCall(slot, form)
        self._slots[slot] = call
        insort_right(self._held, call, key=lambda held: held.slot)
        return call

    def _add_fragment(self, call: PendingChatCall, fragment: Fragment) -> None:
        self._last = call
        if fragment.id and not call.id:
            call.id = fragment.id
            self._by_id.setdefault(fragment.id, call)
        if call.block < 0:
            if fragment.kind == "custom":
                call.kind = "custom"
            if fragment.name:
                call.name = merge_name(call, fragment.name)
        if fragment.arguments:
            self._add_arguments(call, fragment)
        if self._held:
            self._open_ready()

    def _add_arguments(self, call: PendingChatCall, fragment: Fragment) -> None:
        text = fragment.arguments
        if call.size and (fragment.id or fragment.name):
            if call.is_whole() and is_object(text):
                return  # the server repeats the complete call after its fragments
            if (
                not call.repeats
                and call.pieces
                and is_object(text)
                and text.startswith(call.join_arguments())
            ):
                text = text[call.size :]
            else:
                call.repeats = True
        if text:
            self._append(call, text)

    def _append(self, call: PendingChatCall, text: str) -> None:
        call.size += len(text)
        if call.block < 0:
            call.pieces.append(text)
            self._held_size += len(text)
            if self._held_size > HELD:
                self._open_held(len(self._held))
            if self._held_size > HELD:
                raise UpstreamProtocolError("too many arguments for tool calls without a name")
            return
        if not self._builder.is_open(call.block):
            # The client has the call: its arguments can be neither completed nor taken back.
            if text.strip() and not self._context.forwards:
                raise UpstreamProtocolError("more arguments follow a complete tool call")
            return
        self._builder.append(call.block, text)
        if call.size <= WATCHED:
            call.pieces.append(text)
        elif call.pieces:
            call.pieces = []

    def _seal(self, call: PendingChatCall, signature: str) -> None:
        seal = self._current.build_seal(signature)
        if call.block < 0:
            call.seal = seal
        else:
            self._builder.seal(call.block, seal)

    def _open_ready(self) -> None:
        """Open the held calls up to the last one whose name is certain, unless one of them must wait."""
        count = 0
        for number, call in enumerate(self._held, 1):
            if not call.name:
                continue
            if self._waits(call):
                break
            if call.size or call.name in self._certain:
                count = number
        if count:
            self._open_held(count)

    def _waits(self, call: PendingChatCall) -> bool:
        """Whether the id of the call, or the call before it, may still arrive."""
        choice, index = call.slot
        if index == LEGACY:
            return False
        is_missing_earlier = index > 0 and (choice, index - 1) not in self._slots
        if call.id and not is_missing_earlier:
            return False
        # A complete call is sent as it is when the next one has begun.
        last = self._last
        has_next = last is not None and last is not call and last.slot >= call.slot
        return not has_next or not call.is_whole()

    def _open_held(self, count: int) -> None:
        """Open the first `count` held calls in order, except those without a name."""
        ready = [call for call in self._held[:count] if call.name]
        if ready:
            self._held = [call for call in self._held[:count] if not call.name] + self._held[count:]
        for call in ready:
            self._open(call)

    def _open(self, call: PendingChatCall) -> None:
        self._current.close()
        self._close_complete()
        identity = call.id
        if not identity or identity in self._used_ids:
            identity = self._context.ids.make("call_")
        self._used_ids.add(identity)
        block = ToolCall(
            id=identity,
            name=call.name,
            arguments=call.join_arguments() if call.pieces else "",
            kind=call.kind,
            form=call.form,
            extras=call.extras,
            seal=call.seal,
        )
        call.block = self._builder.open(block)
        self._live.append(call)
        self._held_size -= call.size
        if call.size > WATCHED:
            call.pieces = []

    def _close_complete(self) -> None:
        """Close complete calls, so that clients that read blocks one by one get the next block live."""
        still_live = []
        for call in self._live:
            if call.is_whole():
                self._builder.close(call.block)
            elif call.looks < LOOKS:
                call.looks += 1
                still_live.append(call)
        self._live = still_live


def is_new_call(call: PendingChatCall, fragment: Fragment) -> bool:
    """Whether a fragment at the index of `call` starts another call."""
    if fragment.id and call.id:
        return fragment.id != call.id
    if not fragment.name:
        return False
    if call.is_whole():
        # The name comes again without an id to compare: equal name and arguments mean the same call.
        return fragment.name != call.name or bool(
            fragment.arguments and fragment.arguments != call.join_arguments()
        )
    if fragment.name == call.name:
        return False
    return bool(call.size and call.name) or (bool(call.name) and is_object(fragment.arguments))


def merge_name(call: PendingChatCall, name: str) -> str:
    """The name after one more piece: the server may repeat it, send it in full, or continue it."""
    if name.startswith(call.name):
        return name[:LONGEST_NAME]
    return call.name if call.size else (call.name + name)[:LONGEST_NAME]
