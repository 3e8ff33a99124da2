"""Responses as values: the JSON members of a response object, what the gateway decides, what is stored."""

import msgspec

from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure, RequestTooLarge
from dragoman.wire.sse import Frame

#: The statuses of a response that is not finished.
UNFINISHED = frozenset({"queued", "in_progress"})
#: The statuses of a response that a request can continue.
CONTINUABLE = frozenset({"completed", "incomplete"})

#: Bytes that a row is counted with beside its texts.
ROW_SIZE = 512

#: A JSON object whose members are not decoded.
Members = dict[str, msgspec.Raw]

encode_json = msgspec.json.encode
read_members = msgspec.json.Decoder(Members).decode
read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
read_text = msgspec.json.Decoder(str).decode


class ResponseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a response that the gateway decides, not the upstream."""

    id: str
    previous: str = ""
    store: bool = True
    background: bool = False

    def encode_members(self) -> dict[str, bytes]:
        """The members as JSON. The reply's writer, or the patch of a forwarded reply, sets them."""
        members: dict[str, object] = {
            "id": self.id,
            "previous_response_id": self.previous or None,
            "store": self.store,
            "background": self.background,
        }
        return {name: encode_json(value) for name, value in members.items()}

    def apply(self, response: Members) -> Members:
        """A response that the gateway builds itself, with these members."""
        return {**response, **{name: msgspec.Raw(value) for name, value in self.encode_members().items()}}


class StoredResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response as the store keeps it.

    `input` and `output` are the items of this turn alone, as JSON arrays. `body` is the response object
    without its output.
    """

    id: str
    owner: str = ""
    #: The id of the response that this one continues.
    previous: str = ""
    created: float
    status: str
    input: bytes
    output: bytes = b"[]"
    body: bytes = b"{}"
    #: Server-sent events that a client can request again; only of background responses.
    events: bytes = b""
    #: The process that makes the response, and the time of its last heartbeat.
    runner: str = ""
    seen: float = 0.0

    @property
    def size(self) -> int:
        return ROW_SIZE + len(self.input) + len(self.output) + len(self.body) + len(self.events)

    @property
    def is_background(self) -> bool:
        return bytes(read_members(self.body).get("background", b"")) == b"true"

    def encode_response(self) -> bytes:
        """The response object."""
        return encode_json({**read_members(self.body), "output": msgspec.Raw(self.output)})


class StoredTurn(msgspec.Struct, frozen=True):
    """The input and output items of one response in a conversation, as JSON arrays."""

    input: bytes
    output: bytes
    id: str = ""


def complete_response(response: Members) -> Members:
    """The response with a status, a list of items and a usage, which may be empty."""
    if bytes(response.get("output", b""))[:1] != b"[":
        response = {**response, "output": msgspec.Raw(b"[]")}
    return {**_DEFAULTS, **response}


def replace_response(frame: Frame, response: Members) -> Frame:
    """An event with another response."""
    payload = read_members(frame.data)
    payload["response"] = msgspec.Raw(encode_json(response))
    return Frame(frame.event, encode_json(payload))


def build_not_found() -> DragomanError:
    """The error for a response that does not exist, or that another client key owns."""
    message = "no response with this id is stored; it was deleted, has expired, or was never stored"
    return DragomanError(
        message, failure=Failure(kind="not_found", status=404, message=message, code="response_not_found")
    )


def build_previous_not_found() -> ClientProtocolError:
    return ClientProtocolError(
        "no response with this id is stored",
        path="previous_response_id",
        hint="send the whole conversation as input, without previous_response_id",
        code="previous_response_not_found",
    )


def build_too_long(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the conversation is longer than {limit} bytes",
        path="previous_response_id",
        hint="compact it, or start a new one",
    )


_DEFAULTS: Members = {
    name: msgspec.Raw(value)
    for name, value in (("status", b'"completed"'), ("created_at", b"0"), ("usage", b"null"))
}
