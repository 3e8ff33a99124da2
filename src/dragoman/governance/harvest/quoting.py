"""Whether a place in a text is quoted: in a code fence, in inline code, in a quotation.

The tracker follows the text from its beginning, in any pieces. Where Markdown looks ahead, the tracker
assumes code: inline code that is open lasts until its line ends.
"""

import re

#: The characters that can begin or end a quotation, for use in a character class.
SIGNIFICANT = r"\r\n`~\"“”>"
_SPECIAL = re.compile(rf"`+|~+|[{SIGNIFICANT}]")
#: Matches what is not the beginning of a line: a fence may follow blanks and the mark of a list item.
_NOT_LINE_START = re.compile(r"[^\s*+\-\d.)]")
_NOT_BLANK = re.compile(r"\S")
_BEFORE_AN_OPENING_QUOTE = frozenset(" \t\r\n([{:=,")
_LONE_QUOTES = frozenset("'\u2018«„")


class QuoteTracker:
    """Feed the text with `advance`, then ask `is_quoted` about the place behind it."""

    __slots__ = (
        "_block",
        "_closing",
        "_fence",
        "_inline",
        "_line_start",
        "_opening",
        "_quote",
        "_run",
        "_tail",
    )

    def __init__(self) -> None:
        #: The open fence as character and length; the one that this line may open; whether it may close one.
        self._fence: tuple[str, int] | None = None
        self._opening: tuple[str, int] | None = None
        self._closing = False
        #: How many backticks opened the inline code.
        self._inline = 0
        #: Whether a quotation is open, and whether the line is a block quotation.
        self._quote = False
        self._block = False
        self._line_start = True
        #: A run of backticks or tildes that may still grow, and whether it began its line.
        self._run: tuple[str, int, bool] | None = None
        #: The last two characters.
        self._tail = "\n\n"

    @property
    def is_fenced(self) -> bool:
        """Whether a fence is open and this line cannot close it."""
        return self._fence is not None and not self._closing

    @property
    def is_quoted(self) -> bool:
        """Whether the next character is quoted."""
        self._end_run()
        return bool(self._fence or self._opening or self._inline or self._quote or self._block) or (
            self._tail[1] in _LONE_QUOTES and self._tail[0] in _BEFORE_AN_OPENING_QUOTE
        )

    def start_line(self) -> None:
        """Something that is not text stood here: the next character begins a line."""
        self._end_line()
        self._tail = "\n\n"

    @property
    def is_steady(self) -> bool:
        """Whether text without significant characters changes only the last characters."""
        return not (self._line_start or self._closing or self._run is not None)

    def skip(self, text: str) -> None:
        """Such a text came last; only its end matters."""
        self._tail = (self._tail + text)[-2:]

    def advance(self, text: str, start: int, end: int) -> None:
        """Follow the text between two positions."""
        position = start
        for found in _SPECIAL.finditer(text, start, end):
            self._skip_plain(text, position, found.start())
            self._read_special(found[0], text[found.start() - 1] if found.start() > start else self._tail[1])
            position = found.end()
        self._skip_plain(text, position, end)
        if end > start:
            self._tail = (self._tail + text[max(start, end - 2) : end])[-2:]

    def _skip_plain(self, text: str, start: int, end: int) -> None:
        if start == end:
            return
        self._end_run()
        if self._closing and _NOT_BLANK.search(text, start, end):
            self._closing = False
        if self._line_start and _NOT_LINE_START.search(text, start, end):
            self._line_start = False

    def _read_special(self, token: str, before: str) -> None:
        character = token[0]
        if character in "`~":
            self._extend_run(character, len(token))
            return
        self._end_run()
        if character in "\r\n":
            self._end_line()
            return
        self._closing = False
        if self._fence is None and not self._inline:
            if character == ">":
                self._block = self._block or self._line_start
            elif character == "”":
                self._quote = False
            else:
                self._quote = not self._quote and (character == "“" or before in _BEFORE_AN_OPENING_QUOTE)
        self._line_start = False

    def _extend_run(self, character: str, count: int) -> None:
        run = self._run
        if run is not None and run[0] == character:
            self._run = (character, run[1] + count, run[2])
            return
        self._end_run()
        self._run = (character, count, self._line_start)

    def _end_run(self) -> None:
        """Apply the run of backticks or tildes that ended here."""
        if self._run is None:
            return
        character, count, begins_line = self._run
        self._run = None
        self._line_start = False
        if self._fence is not None:
            self._closing = begins_line and character == self._fence[0] and count >= self._fence[1]
        elif begins_line and count >= 3:
            self._opening = (character, count)
        elif character == "`":
            if self._opening is not None and self._opening[0] == "`":
                # Backticks after the info string: the line held inline code and opens no fence.
                self._inline = 0 if self._opening[1] == count else self._opening[1]
                self._opening = None
            elif self._inline in (0, count):
                self._inline = 0 if self._inline else count

    def _end_line(self) -> None:
        self._end_run()
        if self._opening is not None:
            self._fence = self._opening
        elif self._closing:
            self._fence = None
        self._opening = None
        self._closing = False
        self._inline = 0
        self._quote = False
        self._block = False
        self._line_start = True
