"""Text without any marker: most of a reply. It passes the scanner without being scanned.

One piece is searched for the characters with which a marker or a quotation can begin. Pieces that arrive
together are searched once, and may contain line breaks. The result is that of the scanner.
"""

import re
from bisect import bisect_right
from itertools import accumulate

from dragoman.governance.harvest.candidates import OpenerTable
from dragoman.governance.harvest.parts import PartList
from dragoman.governance.harvest.quoting import FENCES, QuoteTracker

_BREAKS = re.compile(r"[\r\n]+")


class PlainText:
    """Takes the pieces of one text block that need no scanner. `openers`: the markers that count anywhere."""

    __slots__ = ("_skipped", "is_clear", "openers")

    def __init__(self, openers: OpenerTable) -> None:
        self.openers = openers
        #: Whether nothing waits, and only a character of `openers.stops` can change that.
        self.is_clear = False
        #: The end of the text that `is_plain` took.
        self._skipped = ""

    def is_plain(self, text: str) -> bool:
        """Whether this piece is text without any marker, as most are. If so, it is taken: do not feed it."""
        if not self.is_clear or self.openers.stops.search(text):
            return False
        self._skipped = text if len(text) > 1 else self._skipped[-1:] + text
        return True

    def settle(self, quotes: QuoteTracker) -> bool:
        """Add what `is_plain` took to the quotes. Returns whether there was any."""
        skipped, self._skipped = self._skipped, ""
        if skipped:
            quotes.skip(skipped)
        return bool(skipped)

    def take_lines(self, texts: list[str], parts: PartList, quotes: QuoteTracker) -> list[str] | None:
        """Take pieces of lines without any marker or quotation. Returns the text that is sent for each.

        Returns None if the scanner must read them; then nothing was taken. Nothing but layout may wait.
        """
        joined = "".join(texts)
        keeps_breaks = quotes.is_fenced or not self.openers
        if (
            not parts.passes_text
            or (parts.layout and keeps_breaks)
            or not quotes.keeps_lines_alike
            or (FENCES if quotes.is_fenced else self.openers.line_stops).search(joined)
            # The stage counts how long line breaks alone wait.
            or not texts[-1].strip("\r\n")
        ):
            return None
        self.settle(quotes)
        quotes.advance_lines(joined)
        if not keeps_breaks:
            texts = _move_breaks([*parts.layout, *texts])
            breaks = joined[len(joined.rstrip("\r\n")) :]
            parts.layout = [breaks] if breaks else []
        return texts


def _move_breaks(texts: list[str]) -> list[str]:
    """These texts, changed in place, with the line breaks at the end of each one moved to the next one.

    A text of line breaks alone is left out, and so are those at the very end.
    """
    joined = "".join(texts)
    ends = list(accumulate(map(len, texts), initial=0))
    changed: list[int] = []
    for found in _BREAKS.finditer(joined):
        start, end = found.span()
        first, last = bisect_right(ends, start), bisect_right(ends, end)
        if first < last:
            ends[first:last] = [start] * (last - first)
            changed += range(first, last + 1)
    for number in changed:
        if number < len(ends):
            texts[number - 1] = joined[ends[number - 1] : ends[number]]
    return [text for text in texts if text]
