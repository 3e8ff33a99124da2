"""Whether a place in a text is quoted: in a code fence, in inline code, in a quotation.

Follows the text from its beginning, in whatever pieces. Where Markdown would have to look ahead, the cautious
answer counts: code that is open is code until its line ends.
"""

import re

#: The characters that tell quoted from unquoted, as they stand in a pattern.
TELLING = r"\r\n`~\"“”>"
_SPECIAL = re.compile(rf"`+|~+|[{TELLING}]")
#: What may stand before a fence on its line, besides blanks: the mark of a list item.
_BEYOND_LINE_START = re.compile(r"[^\s*+\-\d.)]")
_NOT_BLANK = re.compile(r"\S")
_BEFORE_AN_OPENING_QUOTE = frozenset(" \t\r\n([{:=,")
_LONE_QUOTES = frozenset("'\u2018«„")


class Prose:
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
        #: The open fence, as character and length; one that this line may open; whether it may close one.
        self._fence: tuple[str, int] | None = None
        self._opening: tuple[str, int] | None = None
        self._closing = False
        #: How many backticks opened the inline code that is open.
        self._inline = 0
        #: Whether a quotation is open, and whether the whole line is quoted.
        self._quote = False
        self._block = False
        self._line_start = True
        #: A run of backticks or tildes that may still grow, and whether it began its line.
        self._run: tuple[str, int, bool] | None = None
        #: The last two characters.
        self._tail = "\n\n"

    @property
    def fenced(self) -> bool:
        """Whether nothing before the next line can end the code that is open."""
        return self._fence is not None and not self._closing

    @property
    def quoted(self) -> bool:
        """Whether what comes next is quoted."""
        self._settle()
        return bool(self._fence or self._opening or self._inline or self._quote or self._block) or (
            self._tail[1] in _LONE_QUOTES and self._tail[0] in _BEFORE_AN_OPENING_QUOTE
        )

    def break_off(self) -> None:
        """Something else came between; what follows begins a line."""
        self._end_line()
        self._tail = "\n\n"

    @property
    def flows(self) -> bool:
        """Whether texts without telling characters change nothing but what came last."""
        return not (self._line_start or self._closing or self._run is not None)

    def follow(self, text: str) -> None:
        """Such a text came, and perhaps others before it."""
        self._tail = (self._tail + text)[-2:]

    def advance(self, text: str, start: int, end: int) -> None:
        position = start
        for found in _SPECIAL.finditer(text, start, end):
            self._pass(text, position, found.start())
            self._special(found[0], text[found.start() - 1] if found.start() > start else self._tail[1])
            position = found.end()
        self._pass(text, position, end)
        if end > start:
            self._tail = (self._tail + text[max(start, end - 2) : end])[-2:]

    def _pass(self, text: str, start: int, end: int) -> None:
        if start == end:
            return
        self._settle()
        if self._closing and _NOT_BLANK.search(text, start, end):
            self._closing = False
        if self._line_start and _BEYOND_LINE_START.search(text, start, end):
            self._line_start = False

    def _special(self, token: str, before: str) -> None:
        character = token[0]
        if character in "`~":
            self._grow(character, len(token))
            return
        self._settle()
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

    def _grow(self, character: str, count: int) -> None:
        run = self._run
        if run is not None and run[0] == character:
            self._run = (character, run[1] + count, run[2])
            return
        self._settle()
        self._run = (character, count, self._line_start)

    def _settle(self) -> None:
        """The run has ended: what it means."""
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
        self._settle()
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
