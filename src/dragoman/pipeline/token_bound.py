"""The most tokens that a request can have that continues a conversation. Its new messages are not read."""

from collections.abc import Sequence
from functools import cached_property
from math import ceil

from dragoman.dialects.forwarding import Forwarding
from dragoman.dialects.interfaces import Tokenizer
from dragoman.hub.errors import DragomanError
from dragoman.pipeline.history import ReadHistory
from dragoman.pipeline.reading import list_lasting
from dragoman.pipeline.split_body import UnreadText
from dragoman.tokens.request import DISTANCE, SAMPLE, SMALL_PROMPT, PromptSample
from dragoman.tokens.text import add_costs, find_highest_cost
from dragoman.tokens.tokenizers import OVERHEADS
from dragoman.wire.fields import decode, encode


class NewItems:
    """The items of a body behind the known ones. They are not read."""

    def __init__(self, items: tuple[bytes, ...], forwarding: Forwarding) -> None:
        self._items = items
        self._forwarding = forwarding

    @cached_property
    def lasting(self) -> tuple[bytes, ...]:
        """Those that the next request probably repeats."""
        return list_lasting(self._items)

    @cached_property
    def lasting_text(self) -> UnreadText:
        """The most that the lasting items can add to a prompt."""
        return measure_unread(self.lasting, self._forwarding)

    def find_token_bound(self, history: ReadHistory, tokenizer: Tokenizer) -> int | None:
        """At least the estimate for the request; None if it is not known.

        The request has the members of the history, whose known body ends before the items.
        """
        front = history.memo.samples.get(OVERHEADS[tokenizer].tools_as)
        if front is None or history.body is None or history.end.kept is None or history.has_deferred_tools:
            return None
        system, sample = front
        known = sample + history.end.sample
        if system != (*history.body.system, *history.leading) or known.length <= SMALL_PROMPT:
            return None
        unread = history.body.unread + self.lasting_text
        if len(self._items) > len(self.lasting):
            unread += measure_unread(self._items[len(self.lasting) :], self._forwarding)
        if unread.has_media:
            return None
        return add_unread(known, unread, tokenizer)


def add_unread(sample: PromptSample, unread: UnreadText, tokenizer: Tokenizer) -> int:
    """At least the estimate of a prompt that begins with a sample, and goes on with text that is not read."""
    overhead = OVERHEADS[tokenizer]
    # Also the most expensive characters can be those that are sampled.
    sampled = SAMPLE * (unread.length // DISTANCE + 1)
    cost = sampled * find_highest_cost(tokenizer, SAMPLE, is_ascii=unread.is_ascii)
    cost += add_costs(sample.counts, tokenizer)
    tokens = cost * (sample.length + unread.length) / (sample.sampled + sampled)
    # An object may be a message, and also a call or a result.
    each = max(overhead.message, overhead.system) + max(overhead.call, overhead.result)
    return ceil(tokens + sample.parts.add_overhead(overhead) + unread.objects * each)


def measure_unread(items: Sequence[bytes], forwarding: Forwarding) -> UnreadText:
    """The most that these items can add to a prompt."""
    words = forwarding.content_words.get("uncounted")
    try:
        # Encoded anew, all texts are as long as the estimate counts them, or longer.
        new = encode([decode(item, depth=0) for item in items])
    except (DragomanError, RecursionError):
        return UnreadText(has_media=True)
    # The text of an envelope may be compressed.
    has_media = words is None or any(new.rfind(word) >= 0 for word in (*words, forwarding.envelope_mark))
    return UnreadText(len(new), new.count(b"{") + len(items), new.isascii(), has_media)
