"""The request and the reply between two gateways, and the signature of the request. Pure.

The body of the reply is a sequence of pieces of the upstream's reply, each after its length in four bytes. A
piece of length 0 is the end. The length `FAILURE` announces a failure as JSON, which is the end too. So a
broken connection is never taken for the end of a reply.
"""

import hashlib
import hmac
from collections.abc import Mapping

import msgspec

from dragoman.hub.errors import ClientProtocolError, Failure, UpstreamFailed

METHOD = "POST"
PATH = "/gateway/calls"
DATE_HEADER = "x-dragoman-date"
DIGEST_HEADER = "x-dragoman-digest"
SIGNATURE_HEADER = "x-dragoman-signature"
#: Seconds by the clock of the state for which a signature is valid.
VALID_SECONDS = 60.0
#: Seconds for which a nonce is remembered. A date in the future makes a signature valid for twice its time.
NONCE_SECONDS = 2 * VALID_SECONDS + 1
FAILURE = 0xFFFF_FFFF
#: Bytes of one piece. A larger length is a mistake.
MAX_PIECE = 64 * 1024 * 1024
_LENGTH = 4
END = bytes(_LENGTH)


class ForwardedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to an upstream, for the gateway process that holds its session."""

    gateway: str
    #: The gateway that holds the session accepts it once. A worker that passes the request on keeps it.
    nonce: str
    provider: str
    owner: str
    calls: tuple[str, ...]
    model: str
    stream: bool
    key: int
    #: The session that the client named, or an empty text.
    session: str
    body: bytes
    #: A worker has passed the request on to another worker of its machine.
    is_relayed: bool = False


def sign(secret: bytes, date: str, digest: str) -> str:
    """The signature of method, path, date and body: only a gateway with the same state can make it."""
    signed = f"dragoman {METHOD} {PATH} {date} {digest}"
    return hmac.new(secret, signed.encode(), hashlib.sha256).hexdigest()


def build_headers(secret: bytes, body: bytes, now: float) -> dict[str, str]:
    date, digest = f"{now:.3f}", hashlib.sha256(body).hexdigest()
    return {DATE_HEADER: date, DIGEST_HEADER: digest, SIGNATURE_HEADER: sign(secret, date, digest)}


def is_signed(secret: bytes, headers: Mapping[str, str], now: float) -> bool:
    """Whether a gateway with the same secret has signed the headers a short time ago."""
    date, digest = headers.get(DATE_HEADER, ""), headers.get(DIGEST_HEADER, "")
    given = headers.get(SIGNATURE_HEADER, "").encode("latin-1", "replace")
    if not secret or not hmac.compare_digest(given, sign(secret, date, digest).encode()):
        return False
    return abs(now - float(date)) <= VALID_SECONDS


def read_request(headers: Mapping[str, str], body: bytes) -> ForwardedRequest:
    """The request of a body. Raises if the body is not the one whose digest was signed."""
    digest = headers.get(DIGEST_HEADER, "").encode("latin-1", "replace")
    try:
        if hmac.compare_digest(digest, hashlib.sha256(body).hexdigest().encode()):
            return msgspec.msgpack.decode(body, type=ForwardedRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    raise ClientProtocolError("the request is not one of a gateway")


class NonceMemory:
    """The nonces of the requests that this process has accepted a short time ago."""

    def __init__(self) -> None:
        #: The dates until which they are remembered, the next one first.
        self._dates: dict[str, float] = {}

    def accept(self, nonce: str, now: float) -> bool:
        """Whether the nonce is new. One that comes again is remembered for longer: it may be signed anew."""
        while self._dates and next(iter(self._dates.values())) < now:
            del self._dates[next(iter(self._dates))]
        is_new = self._dates.pop(nonce, None) is None
        self._dates[nonce] = now + NONCE_SECONDS
        return is_new


def keep_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers of a reply that belong to the upstream, not to the connection."""
    return {name: headers[name] for name in ("content-type", "x-session-id") if name in headers}


def encode_piece(piece: bytes) -> bytes:
    return len(piece).to_bytes(_LENGTH) + piece


def encode_failure(failure: Failure) -> bytes:
    data = msgspec.json.encode(failure)
    return FAILURE.to_bytes(_LENGTH) + encode_piece(data)


class PieceDecoder:
    """Reads the pieces of a reply. `failure` is set at the end of a reply that has failed."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._has_failed = False
        self.failure: Failure | None = None
        self.is_complete = False

    def feed(self, data: bytes) -> bytes:
        """The pieces that are complete, joined."""
        self._buffer += data
        pieces: list[bytes] = []
        while not self.is_complete and len(self._buffer) >= _LENGTH:
            length = int.from_bytes(self._buffer[:_LENGTH])
            if length == FAILURE and not self._has_failed:
                self._has_failed = True
                del self._buffer[:_LENGTH]
                continue
            if length > MAX_PIECE:
                raise UpstreamFailed(Failure(kind="server", message="another gateway sent no valid reply"))
            if len(self._buffer) < _LENGTH + length:
                break
            piece = bytes(self._buffer[_LENGTH : _LENGTH + length])
            del self._buffer[: _LENGTH + length]
            self.is_complete = self._has_failed or not piece
            if self._has_failed:
                self.failure = msgspec.json.decode(piece, type=Failure)
            else:
                pieces.append(piece)
        return b"".join(pieces)
