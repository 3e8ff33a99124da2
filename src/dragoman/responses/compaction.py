"""Conversations made short: a summary by the model itself, in an item that stands for all before it.

OpenAI's own models seal such an item; for all others the gateway asks the model for a summary and wraps it.
The wrapping is no secret, since the client has the conversation anyway: it only has to come back unchanged.
"""

import base64
import binascii
import zlib
from collections.abc import Awaitable, Mapping, Sequence

import msgspec

from dragoman.dialects.base import Json
from dragoman.exchange.client import Client, DirectConnection
from dragoman.hub.errors import DragomanError, Failure
from dragoman.pipeline.transports import Transport
from dragoman.responses.facts import TERMINAL_EVENTS, ResponseCollector, ResponseFacts, complete_response
from dragoman.responses.listing import named
from dragoman.responses.stored import Members, items_of, members_of
from dragoman.wire.sse import Frame, Output

PREFIX = "dgmc1."
#: No honest summary is longer; a hostile one must not inflate without bound.
MAX_SUMMARY = 8 * 1024 * 1024

TRIGGER = "compaction_trigger"
ITEM = "compaction"

#: What the model is asked for, in place of the trigger.
WISH = (
    "The conversation is about to be cut here, and only what you write now will be left of it. Write the "
    "notes that whoever continues needs, addressed to them: what the user wants, in the user's own words "
    "where they matter; what was decided and why; what was done, with the exact names of files, functions, "
    "commands and values; what came out of it, errors included; what is unfinished, and the next step. "
    "Leave out what no longer matters. Answer with the notes alone; call no tools."
)
#: How the notes are introduced to whoever continues.
INTRODUCTION = "The conversation so far was cut here. These are the notes that were left of it:\n\n"

_encode = msgspec.json.encode
_json = msgspec.json.Decoder(dict[str, object]).decode


class Head(msgspec.Struct):
    """What an item is. Anything of the wrong type is left to the reader to complain about."""

    type: object = "message"
    id: object = ""
    role: object = ""
    encrypted_content: object = ""


_head = msgspec.json.Decoder(Head).decode


def head_of(item: msgspec.Raw) -> Head:
    try:
        return _head(item)
    except (ValueError, RecursionError):
        return Head(type=None)


def wrapped(summary: str) -> str:
    packed = zlib.compress(summary.encode("utf-8", "surrogatepass"), 6)
    return PREFIX + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def unwrapped(value: str) -> str | None:
    """The summary, or None for anything that is not a whole wrapping of ours."""
    text = value.removeprefix(PREFIX)
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        inflater = zlib.decompressobj()
        summary = inflater.decompress(packed, MAX_SUMMARY)
        if text == value or not inflater.eof:
            return None
        return summary.decode()
    except (ValueError, binascii.Error, zlib.error):
        return None


def told_again(items: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """The items, with what a summary of ours says in place of the item that holds it."""
    return [_told(item) if PREFIX.encode() in bytes(item) else item for item in items]


def _told(item: msgspec.Raw) -> msgspec.Raw:
    head = head_of(item)
    if head.type != ITEM or not isinstance(head.encrypted_content, str):
        return item
    summary = unwrapped(head.encrypted_content)
    return item if summary is None else _message(INTRODUCTION + summary)


def asked_for(items: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """The conversation with the wish for a summary at its end, in place of a trigger."""
    return [*(item for item in items if not is_trigger(item)), _message(WISH)]


def _message(text: str) -> msgspec.Raw:
    content = [{"type": "input_text", "text": text}]
    return msgspec.Raw(_encode({"type": "message", "role": "user", "content": content}))


def is_trigger(item: msgspec.Raw) -> bool:
    return b'"compaction_trigger"' in bytes(item) and head_of(item).type == TRIGGER


def gone_on(conversation: Sequence[msgspec.Raw], output: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """What counts after a turn: all that was said, or what the model made of it if it made it short."""
    for place in range(len(output) - 1, -1, -1):
        if b'"compaction"' in bytes(output[place]) and head_of(output[place]).type == ITEM:
            return list(output[place:])
    return [*conversation, *output]


def user_messages(items: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    heads = ((item, head_of(item)) for item in items)
    return [item for item, head in heads if head.type == "message" and head.role == "user"]


class CompactionCollector(ResponseCollector):
    """Replaces the output of a reply that is a summary by the one item that holds the summary."""

    changes_stream = True

    def __init__(self, facts: ResponseFacts) -> None:
        super().__init__(facts)
        self._number = 0

    def process_whole(self, response: Members) -> Members:
        response = super().process_whole(response)
        item = self._build_item(response)
        if item is None:
            raise DragomanError(NOTHING.message, failure=NOTHING)
        return {**response, **_finished(item)}

    def process(self, frame: Frame) -> Sequence[Frame]:
        if frame.data == b"[DONE]":
            return (frame,)
        try:
            payload = members_of(frame.data)
            response = complete_response(members_of(payload["response"]))
        except (ValueError, KeyError, RecursionError):
            return ()
        if frame.event not in TERMINAL_EVENTS:
            return (self._build_event(frame.event, {"response": response}),)
        item = self._build_item(response) if frame.event != "response.failed" else None
        if item is not None:
            place: Json = {"output_index": 0, "item": item}
            self.response = {**response, **_finished(item)}
            return (
                self._build_event("response.output_item.added", place),
                self._build_event("response.output_item.done", place),
                self._build_event("response.completed", {"response": self.response}),
            )
        self.response = {**response, "output": msgspec.Raw(b"[]")}
        if frame.event != "response.failed":
            error = {"code": "server_error", "message": NOTHING.message}
            self.response |= {"status": msgspec.Raw(b'"failed"'), "error": msgspec.Raw(_encode(error))}
        return (self._build_event("response.failed", {"response": self.response}),)

    def _build_event(self, name: str, fields: Json) -> Frame:
        event = {"type": name, **fields, "sequence_number": self._number}
        self._number += 1
        return Frame(name, _encode(event))

    def _build_item(self, response: Members) -> Json | None:
        summary = text_in(response)
        if not summary:
            return None
        return {"type": ITEM, "id": f"cmp_{self.facts.id[-24:]}", "encrypted_content": wrapped(summary)}


def _finished(item: Json) -> Members:
    return {
        "status": msgspec.Raw(b'"completed"'),
        "incomplete_details": msgspec.Raw(b"null"),
        "output": msgspec.Raw(_encode([item])),
    }


class Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class Said(msgspec.Struct):
    type: str = ""
    content: list[Part] | str | None = None


_said = msgspec.json.Decoder(list[Said]).decode

NOTHING = Failure(
    kind="server", status=502, message="the model gave no summary, so the conversation stays as it is"
)


def text_in(response: Members) -> str:
    """What a response says to its reader."""
    try:
        items = _said(response.get("output", b"[]"))
    except (ValueError, RecursionError):
        return ""
    parts = [
        part
        for item in items
        if item.type == "message" and isinstance(item.content, list)
        for part in item.content
    ]
    return "".join(part.text for part in parts if part.type == "output_text").strip()


class CompactClient:
    """Makes the answer to a client that asked for nothing but a summary: what to send from now on."""

    def __init__(self, client: Client, items: Sequence[msgspec.Raw]) -> None:
        self._client = client
        self._kept = user_messages(items)
        self.direct: DirectConnection | None = None

    @property
    def transport(self) -> Transport:
        return self._client.transport

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        return self._client.start(status, headers)

    def send(self, output: Output) -> Awaitable[None]:
        return self._client.send(output)

    def end(self, output: Output = ()) -> Awaitable[None]:
        return self._client.end(output)

    def ping(self, data: bytes) -> Awaitable[None]:
        return self._client.ping(data)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if status == 200:
            body = self._compacted(members_of(body))
        await self._client.respond(status, {**headers, "content-length": str(len(body))}, body)

    def abort(self, *, at_once: bool = False) -> None:
        self._client.abort(at_once=at_once)

    def _compacted(self, response: Members) -> bytes:
        return _encode(
            {
                "id": response["id"],
                "object": "response.compaction",
                "created_at": response["created_at"],
                "output": [*self._messages(response), *items_of(response["output"])],
                "usage": response["usage"],
            }
        )

    def _messages(self, response: Members) -> list[Json]:
        """The user's own words, spelled as in any list."""
        name = bytes(response["id"]).decode()
        return [named(_json(item), name, place) for place, item in enumerate(self._kept)]
