"""Reads and writes `logprobsResult`: the tokens of an answer and their probabilities."""

from collections.abc import Sequence

from dragoman.dialects.gemini.names import to_camel
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import TokenLogprob

RESULT = "logprobsResult"
_CHOSEN = "chosenCandidates"
_TOP = "topCandidates"


def read_tokens(value: object) -> tuple[TokenLogprob, ...]:
    """The chosen tokens, each with the most likely ones at its place."""
    result = to_camel(value) if isinstance(value, dict) else {}
    likely = [_read_list(to_camel(place).get("candidates")) for place in _objects(result.get(_TOP))]
    chosen = _read_list(result.get(_CHOSEN))
    return tuple(
        TokenLogprob(token.token, token.logprob, None, likely[place] if place < len(likely) else ())
        for place, token in enumerate(chosen)
    )


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _read_list(value: object) -> tuple[TokenLogprob, ...]:
    return tuple(_read_token(to_camel(item)) for item in _objects(value))


def _read_token(item: Json) -> TokenLogprob:
    """Read a token. The API leaves out members that have their default, such as a probability of 1."""
    token, logprob = item.get("token"), item.get("logProbability")
    number = float(logprob) if isinstance(logprob, int | float) else 0.0
    return TokenLogprob(token if isinstance(token, str) else "", number)


def write_tokens(tokens: Sequence[TokenLogprob]) -> Json:
    """The result for tokens of another vendor, which have no ids of Gemini."""
    result: Json = {_CHOSEN: [_write_token(token) for token in tokens]}
    if any(token.top for token in tokens):
        result[_TOP] = [{"candidates": [_write_token(likely) for likely in token.top]} for token in tokens]
    return result


def _write_token(token: TokenLogprob) -> Json:
    return {"token": token.token, "logProbability": token.logprob}
