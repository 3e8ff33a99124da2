"""What is stored of a response and of its conversation, as values, and the errors about them.

`ResponseStore` (`store.py`) reads and writes these values.
"""

from typing import TYPE_CHECKING

import msgspec

from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure, RequestTooLarge
from dragoman.responses.members import Members, encode_json, read_members, read_text

if TYPE_CHECKING:
    from dragoman.responses.turn import ResponseTurn

#: The statuses of a response that is not finished.
UNFINISHED = frozenset({"queued", "in_progress"})
#: The statuses of a response that a request can continue.
CONTINUABLE = frozenset({"completed", "incomplete"})

#: Bytes that a row is counted with beside its texts.
ROW_SIZE = 512


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


def build_stored(turn: "ResponseTurn", response: Members, created: float) -> StoredResponse:
    """The row of a response. `response` is the object that the client gets, `created` the time."""
    body = {name: value for name, value in response.items() if name != "output"}
    return StoredResponse(
        id=turn.facts.id,
        owner=turn.owner,
        previous=turn.parent,
        created=created,
        status=read_text(response.get("status", b'"completed"')),
        input=encode_json(turn.input),
        output=bytes(response.get("output", b"[]")),
        body=encode_json(body),
    )


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
