"""The JSON members of a response object, and those of them that the gateway decides (`ResponseFacts`)."""

import msgspec

from dragoman.wire.sse import Frame

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


def complete_response(response: Members) -> Members:
    """The response with a status, a list of items and a usage, which may be empty."""
    if bytes(response.get("output", b""))[:1] != b"[":
        response = {**response, "output": msgspec.Raw(b"[]")}
    return {**_DEFAULTS, **response}


def replace_response(frame: Frame, response: Members) -> Frame:
    """The event with its member `response` replaced."""
    payload = read_members(frame.data)
    payload["response"] = msgspec.Raw(encode_json(response))
    return Frame(frame.event, encode_json(payload))


_DEFAULTS: Members = {
    name: msgspec.Raw(value)
    for name, value in (("status", b'"completed"'), ("created_at", b"0"), ("usage", b"null"))
}
