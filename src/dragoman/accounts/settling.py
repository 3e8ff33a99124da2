"""What an exchange has really used, as far as that can be known.

An upstream tells its usage at the end. A reply that never got there is charged what was told so far, and for
the rest what the bytes that came suggest: to charge nothing would make breaking off the way to pay nothing.
"""

import msgspec

from dragoman.accounts.decide import Amount
from dragoman.hub.usage import Usage

#: Set aside for an answer whose length the request does not limit.
DEFAULT_OUTPUT = 4096
#: What is set aside for a prompt beyond what was counted: counting without the vendor's own tokenizer is
#: right to a few percent, and vendors add a few tokens of their own.
SAFETY_SHARE = 4
SAFETY = 16
#: Bytes of a request for one token of its prompt, where nobody has counted.
BYTES_PER_TOKEN = 4
#: Bytes of a stream for one token of an answer, frames included. Vendors differ in how much goes into one
#: frame; these lie at the end that charges more.
STREAM_BYTES_PER_TOKEN: dict[str, int] = {
    "anthropic": 30,
    "openai_chat": 100,
    "openai_responses": 80,
    "gemini": 30,
}

#: No reply has more tokens; a larger number is a mistake or a trick.
MOST_TOKENS = 10**9
MOST_CANDIDATES = 128

_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "extras")
_UNTOLD = Usage()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How far an exchange got."""

    #: What the upstream told, if it did.
    usage: Usage | None
    #: The prompt's tokens, counted before it was sent.
    input: int
    #: The upstream had the request, and has not said that it refuses it.
    was_accepted: bool
    finished: bool
    #: Tokens of prompts before the last one, where the upstream was asked more than once.
    earlier_input: int = 0
    #: Bytes of the reply that came, and the dialect of the stream they were in, if they were in one.
    heard: int = 0
    stream: str = ""


def really_used(outcome: Outcome) -> Usage:
    """Every count that budgets and bills are made of; none of them is unknown any more."""
    if not outcome.was_accepted:
        return Usage(input=0, output=0)
    told = _sane(outcome.usage) if outcome.usage else _UNTOLD
    prompt, output = told.input, told.output
    # Some servers begin with a zero that the end would have corrected.
    if prompt is None or (prompt == 0 and not outcome.finished):
        prompt = outcome.input
    if output is None or not outcome.finished:
        guessed = outcome.heard // STREAM_BYTES_PER_TOKEN.get(outcome.stream, BYTES_PER_TOKEN)
        output = max(told.output or 0, min(guessed, MOST_TOKENS))
    prompt += outcome.earlier_input
    if prompt == told.input and output == told.output:
        return told
    return msgspec.structs.replace(told, input=prompt, output=output)


def _sane(usage: Usage) -> Usage:
    """An upstream's numbers are bytes from outside like all others."""
    strange: dict[str, int] = {}
    for name in _COUNTS:
        count = getattr(usage, name)
        if count is not None and not 0 <= count <= MOST_TOKENS:
            strange[name] = min(max(0, count), MOST_TOKENS)
    return msgspec.structs.replace(usage, **strange) if strange else usage


def at_most(tokens: int) -> int:
    """What a prompt that was counted may turn out to have."""
    return tokens + tokens // SAFETY_SHARE + SAFETY


def longest_answer(asked: int | None, candidates: int | None, most: int | None) -> int:
    """What an answer may have: as asked for, `most` of what the model gives, as often as asked for.

    Clients may ask for anything; what no model gives, and less than nothing, is not set aside.
    """
    output = min(max(1, asked or DEFAULT_OUTPUT), most or MOST_TOKENS, MOST_TOKENS)
    return output * min(max(1, candidates or 1), MOST_CANDIDATES)


def amount_of(usage: Usage, cost: int) -> Amount:
    return Amount(usage.total + (usage.tool_input or 0), cost)
