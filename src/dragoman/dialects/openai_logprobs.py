"""Reads and writes the probabilities of tokens, whose objects Chat Completions and Responses share."""

from collections.abc import Sequence

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import TokenLogprob

_TOP = "top_logprobs"


def read_tokens(value: object) -> tuple[TokenLogprob, ...]:
    """The tokens of a list; entries of another form are left out."""
    entries = value if isinstance(value, list) else ()
    return tuple(token for entry in entries if (token := _read_token(entry)) is not None)


def _read_token(entry: object) -> TokenLogprob | None:
    if not isinstance(entry, dict):
        return None
    token, logprob, data, top = (entry.get(name) for name in ("token", "logprob", "bytes", _TOP))
    if not isinstance(token, str) or not isinstance(logprob, int | float):
        return None
    # A likely token has no likely tokens of its own.
    likely = [{**each, _TOP: None} for each in top if isinstance(each, dict)] if isinstance(top, list) else []
    return TokenLogprob(token, float(logprob), _read_bytes(data), read_tokens(likely))


def _read_bytes(data: object) -> tuple[int, ...] | None:
    if not isinstance(data, list):
        return None
    return tuple(data) if all(type(byte) is int and 0 <= byte < 256 for byte in data) else None


def write_tokens(tokens: Sequence[TokenLogprob]) -> list[Json]:
    return [{**_write_token(token), _TOP: [_write_token(likely) for likely in token.top]} for token in tokens]


def _write_token(token: TokenLogprob) -> Json:
    """The members that all tokens have. Clients of Responses require the bytes."""
    data = token.token.encode("utf-8", "replace") if token.data is None else token.data
    return {"token": token.token, "logprob": token.logprob, "bytes": list(data)}
