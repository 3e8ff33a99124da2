"""One response as it is kept: what went in, what came out, and what the client was told of it."""

import msgspec

from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure, RequestTooLarge

#: A response in one of these states is still being made.
OPEN = frozenset({"queued", "in_progress"})
#: Only what was said to its end can be continued.
CONTINUABLE = frozenset({"completed", "incomplete"})

Members = dict[str, msgspec.Raw]

members_of = msgspec.json.Decoder(Members).decode
items_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """`input`, `output`: the turn's own items, JSON arrays. `body`: the response without its output."""

    id: str
    owner: str = ""
    #: The id of the response that this one continues.
    previous: str = ""
    created: float
    status: str
    input: bytes
    output: bytes = b"[]"
    body: bytes = b"{}"
    #: Server-sent events that a client may ask for again; only of responses made in the background.
    events: bytes = b""
    #: Who is making it, while it is being made, and when that one was last seen.
    runner: str = ""
    seen: float = 0.0

    @property
    def size(self) -> int:
        return ROW + len(self.input) + len(self.output) + len(self.body) + len(self.events)

    def encode_response(self) -> bytes:
        """The response object."""
        return msgspec.json.encode({**members_of(self.body), "output": msgspec.Raw(self.output)})


#: What a row costs beside its texts.
ROW = 512


class Kept(msgspec.Struct, frozen=True):
    """One turn of a conversation that is being continued."""

    input: bytes
    output: bytes
    id: str = ""


def not_found() -> DragomanError:
    """For whoever asks for a response that is not there, or not theirs."""
    message = "no response of that id is stored here; it was deleted, has expired, or was never stored"
    return DragomanError(
        message, failure=Failure(kind="not_found", status=404, message=message, code="response_not_found")
    )


def previous_not_found() -> ClientProtocolError:
    return ClientProtocolError(
        "no response of that id is stored here",
        path="previous_response_id",
        hint="send the whole conversation as input, without previous_response_id",
        code="previous_response_not_found",
    )


def too_long(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the conversation is longer than {limit} bytes",
        path="previous_response_id",
        hint="compact it, or begin a new one",
    )
