"""Compaction: one item replaces a conversation. It contains a summary that the model writes.

OpenAI's own models make such an item themselves. For all others the gateway asks the model for a summary and
packs it into an item. Packing is not encryption, since the client has the conversation anyway: the item must
only come back unchanged.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.exchange.client import Client
from dragoman.hub.errors import DragomanError, Failure
from dragoman.responses.collector import TERMINAL_EVENTS, ResponseCollector, WrappedClient
from dragoman.responses.input_items import describe_item
from dragoman.responses.members import (
    Members,
    ResponseFacts,
    complete_response,
    encode_json,
    read_items,
    read_members,
)
from dragoman.wire.sse import Frame

PREFIX = "dgmc1."
#: Bytes. No honest summary is longer, and a hostile one must not inflate without a limit.
MAX_SUMMARY = 8 * 1024 * 1024

TRIGGER = "compaction_trigger"
ITEM = "compaction"

#: The message that replaces the trigger in the request to the model.
SUMMARY_PROMPT = (
    "The conversation is about to be cut here, and only what you write now will be left of it. Write the "
    "notes that are needed to continue it, addressed to the reader who continues: what the user wants, in "
    "the user's own words where they matter; what was decided and why; what was done, with the exact names "
    "of files, functions, commands and values; the results, errors included; what is unfinished, and the "
    "next step. Leave out what no longer matters. Answer with the notes alone; call no tools."
)
#: The text before the summary, when it goes to a model again.
INTRODUCTION = "The conversation so far was cut here. These are the notes that were left of it:\n\n"

NO_SUMMARY = Failure(
    kind="server", status=502, message="the model gave no summary, so the conversation stays as it is"
)

_decode_object = msgspec.json.Decoder(dict[str, object]).decode


class ItemHead(msgspec.Struct):
    """The members of an item that the gateway looks at. The dialect's reader refuses wrong types."""

    type: object = "message"
    id: object = ""
    role: object = ""
    encrypted_content: object = ""


_decode_head = msgspec.json.Decoder(ItemHead).decode


def read_head(item: msgspec.Raw) -> ItemHead:
    try:
        return _decode_head(item)
    except (ValueError, RecursionError):
        return ItemHead(type=None)


def pack_summary(summary: str) -> str:
    packed = zlib.compress(summary.encode("utf-8", "surrogatepass"), 6)
    return PREFIX + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def unpack_summary(value: str) -> str | None:
    """The summary, or None for anything that `pack_summary` did not write."""
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


def expand_summaries(items: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """The items, with the text of a summary in place of the item that contains it."""
    return [_expand(item) if PREFIX.encode() in bytes(item) else item for item in items]


def _expand(item: msgspec.Raw) -> msgspec.Raw:
    head = read_head(item)
    if head.type != ITEM or not isinstance(head.encrypted_content, str):
        return item
    summary = unpack_summary(head.encrypted_content)
    return item if summary is None else _build_message(INTRODUCTION + summary)


def add_summary_prompt(items: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """The conversation, with the request for a summary at its end, in place of a trigger."""
    return [*(item for item in items if not is_trigger(item)), _build_message(SUMMARY_PROMPT)]


def _build_message(text: str) -> msgspec.Raw:
    content = [{"type": "input_text", "text": text}]
    return msgspec.Raw(encode_json({"type": "message", "role": "user", "content": content}))


def is_trigger(item: msgspec.Raw) -> bool:
    return b'"compaction_trigger"' in bytes(item) and read_head(item).type == TRIGGER


def extend_conversation(
    conversation: Sequence[msgspec.Raw], output: Sequence[msgspec.Raw]
) -> list[msgspec.Raw]:
    """The conversation after a reply. A compaction item in the reply replaces everything before it."""
    for place in range(len(output) - 1, -1, -1):
        if b'"compaction"' in bytes(output[place]) and read_head(output[place]).type == ITEM:
            return list(output[place:])
    return [*conversation, *output]


def find_user_messages(items: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    heads = ((item, read_head(item)) for item in items)
    return [item for item, head in heads if head.type == "message" and head.role == "user"]


class CompactionCollector(ResponseCollector):
    """Collects a reply whose text is a summary, and replaces its output by one item with that summary."""

    changes_stream = True

    def __init__(self, facts: ResponseFacts) -> None:
        super().__init__(facts)
        self._number = 0

    def process_whole(self, response: Members) -> Members:
        response = super().process_whole(response)
        item = self._build_item(response)
        if item is None:
            raise DragomanError(NO_SUMMARY.message, failure=NO_SUMMARY)
        return {**response, **_build_finished_members(item)}

    def process(self, frame: Frame) -> Sequence[Frame]:
        if frame.data == b"[DONE]":
            return (frame,)
        try:
            payload = read_members(frame.data)
            response = complete_response(read_members(payload["response"]))
        except (ValueError, KeyError, RecursionError):
            return ()
        if frame.event not in TERMINAL_EVENTS:
            return (self._build_event(frame.event, {"response": response}),)
        item = self._build_item(response) if frame.event != "response.failed" else None
        if item is not None:
            place: Json = {"output_index": 0, "item": item}
            self.response = {**response, **_build_finished_members(item)}
            return (
                self._build_event("response.output_item.added", place),
                self._build_event("response.output_item.done", place),
                self._build_event("response.completed", {"response": self.response}),
            )
        self.response = {**response, "output": msgspec.Raw(b"[]")}
        if frame.event != "response.failed":
            error = {"code": "server_error", "message": NO_SUMMARY.message}
            self.response |= {"status": msgspec.Raw(b'"failed"'), "error": msgspec.Raw(encode_json(error))}
        return (self._build_event("response.failed", {"response": self.response}),)

    def _build_event(self, name: str, fields: Json) -> Frame:
        event = {"type": name, **fields, "sequence_number": self._number}
        self._number += 1
        return Frame(name, encode_json(event))

    def _build_item(self, response: Members) -> Json | None:
        summary = read_output_text(response)
        if not summary:
            return None
        return {"type": ITEM, "id": f"cmp_{self.facts.id[-24:]}", "encrypted_content": pack_summary(summary)}


def _build_finished_members(item: Json) -> Members:
    return {
        "status": msgspec.Raw(b'"completed"'),
        "incomplete_details": msgspec.Raw(b"null"),
        "output": msgspec.Raw(encode_json([item])),
    }


class OutputPart(msgspec.Struct):
    type: str = ""
    text: str = ""


class OutputItem(msgspec.Struct):
    type: str = ""
    content: list[OutputPart] | str | None = None


_decode_output = msgspec.json.Decoder(list[OutputItem]).decode


def read_output_text(response: Members) -> str:
    """The text of all messages in a response."""
    try:
        items = _decode_output(response.get("output", b"[]"))
    except (ValueError, RecursionError):
        return ""
    parts = [
        part
        for item in items
        if item.type == "message" and isinstance(item.content, list)
        for part in item.content
    ]
    return "".join(part.text for part in parts if part.type == "output_text").strip()


class CompactClient(WrappedClient):
    """The client of `POST /v1/responses/compact`. It gets the items that replace the conversation."""

    def __init__(self, client: Client, items: Sequence[msgspec.Raw]) -> None:
        super().__init__(client)
        self._user_messages = find_user_messages(items)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if status == 200:
            body = self._build_compaction(read_members(body))
        await self._client.respond(status, {**headers, "content-length": str(len(body))}, body)

    def _build_compaction(self, response: Members) -> bytes:
        return encode_json(
            {
                "id": response["id"],
                "object": "response.compaction",
                "created_at": response["created_at"],
                "output": [*self._describe_messages(response), *read_items(response["output"])],
                "usage": response["usage"],
            }
        )

    def _describe_messages(self, response: Members) -> list[Json]:
        """The user's messages, in the form of `list_input_items`."""
        response_id = bytes(response["id"]).decode()
        return [
            describe_item(_decode_object(item), response_id, place)
            for place, item in enumerate(self._user_messages)
        ]
