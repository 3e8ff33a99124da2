"""Whether a place in a text is quoted, and what stands before it on its line.

Quoted is: in a code fence, in inline code, in a quotation, in brackets, in HTML or XML markup. The tracker
follows the text from its beginning, in any pieces. Where Markdown looks ahead, the tracker assumes code:
inline code that is open lasts until its line ends.
"""

import re

#: The characters that can begin or end a quotation within a line, for use in a character class.
QUOTING = r"`~\"“”<>"
#: The same and line breaks, which end some quotations.
SIGNIFICANT = rf"\r\n{QUOTING}"
#: The characters that can end a code fence.
FENCES = re.compile("[`~]")
_SPECIAL = re.compile(rf"`+|~+|[{SIGNIFICANT}]")
#: Matches what is not the beginning of a line: a fence may follow blanks and the mark of a list item.
_NOT_LINE_START = re.compile(r"[^\s*+\-\d.)]")
_NOT_BLANK = re.compile(r"\S")
#: A line that is neither blank nor indented.
_LINE = re.compile(r"[\r\n]\S")
_BEFORE_AN_OPENING_QUOTE = frozenset(" \t\r\n([{:=,")
#: The same, or the end of a tag before the answer.
_BEFORE_A_LONE_QUOTE = _BEFORE_AN_OPENING_QUOTE | {">"}
_LONE_QUOTES = frozenset("'\u2018«„")
#: A call right behind one of these on its line is part of a diff, a list, a heading or a table.
_LINE_MARKS = frozenset("+-*#|")
#: A call behind one of these, also on the line before, is part of a quotation.
_OPENING = frozenset("([{«\u2039\u3008\u300a\u300c\u300e\u3010\uff08\u201e")
#: A line that ends with one of these begins a quotation: the end of a triple quotation mark.
_LONG_QUOTES = frozenset(("''", '""'))
#: An indented line below one that begins with these belongs to the same list item or diff.
_ITEM_MARKS = frozenset("-*+@•")
_SENTENCE_ENDS = frozenset(".!?…\u3002\uff01\uff1f")
_TAB_WIDTH = 4
#: How much of the end of a long text without quoting characters is read.
_READ_AT_END = 100

_TAG = re.compile(r"(/?)([A-Za-z][\w.-]*)(?:\s[^<>]*)?(/?)")
#: How long a tag may be.
_TAG_LIMIT = 200
_COMMENTS = {"!--": "--", "![CDATA[": "]]"}
#: Elements that quote if they begin a line; others only if their tag is alone on the line.
_HTML = re.compile(
    "article|blockquote|body|code|d[dlt]|details|div|head|html|kbd|li|ol|p|pre|samp|script|section|style|svg"
    "|table|tbody|t[dhr]|template|textarea|thead|ul|xmp"
)
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
#: Elements that models write around calls, reasoning and answers: they quote nothing.
_OWN = re.compile(
    "answer|arg_key|arg_value|final|function|function_calls?|invoke|param|parameter|reasoning|response|s"
    "|think|thinking|thought|tools?|tool_calls?|tool_sep|toolcall"
)
#: Without brackets: tags that end reasoning, and tokens around an answer. The answer begins behind them.
_ANSWER_EDGE = re.compile(r"/(?:\w+:)?(?:think|thinking|thought|reasoning)(?::\w+)?|[|\uff5c][^<>]*[|\uff5c]")


class _MarkupTracker:
    """The HTML or XML elements and the comment that are open in a text."""

    __slots__ = ("_comment", "_elements", "_lone", "_tag", "_tag_column")

    def __init__(self) -> None:
        #: The text of a tag behind its `<`, and the column where it began.
        self._tag: str | None = None
        self._tag_column = 0
        #: The elements that open if nothing but tags is on this line.
        self._lone: list[str] = []
        self._elements: list[str] = []
        #: What ends the open comment, before its `>`.
        self._comment = ""

    @property
    def is_open(self) -> bool:
        return bool(self._comment or self._elements)

    @property
    def is_in_tag(self) -> bool:
        return self._tag is not None or bool(self._lone)

    def add(self, text: str) -> None:
        """Add text without `<`, `>` and line breaks."""
        if self._tag is not None:
            self._tag = self._tag + text if len(self._tag) + len(text) <= _TAG_LIMIT else None
            for opening, closing in _COMMENTS.items():
                if self._tag is not None and self._tag.startswith(opening):
                    self._comment = closing
                    self._tag = None
        elif self._lone and text.strip():
            self._lone = []

    def open_tag(self, column: int) -> None:
        """Add a `<`. `column`: its column, or -1 if it does not begin its line."""
        if not self._comment:
            self._tag = ""
            self._tag_column = 0 if self._lone else column

    def close_tag(self, before: str) -> bool:
        """Add a `>` after the two characters `before`. Returns whether it ends a tag around the answer."""
        if self._comment:
            self._comment = "" if before == self._comment else self._comment
            return False
        tag = self._tag or ""
        self._tag = None
        if found := _TAG.fullmatch(tag):
            self._close_element_tag(found)
        return not self.is_open and _ANSWER_EDGE.fullmatch(tag) is not None

    def _close_element_tag(self, found: re.Match[str]) -> None:
        if found[3]:
            return
        name = found[2].lower()
        if found[1]:
            for names in (self._lone, self._elements):
                if name in names:
                    del names[len(names) - 1 - names[::-1].index(name) :]
                    break
        elif self._tag_column >= 0 and not _VOID.fullmatch(name) and not _OWN.fullmatch(name):
            if _HTML.fullmatch(name):
                self._elements.append(name)
            else:
                self._lone.append(name)

    def end_line(self) -> None:
        self._elements += self._lone
        self._lone = []
        self._tag = None


class QuoteTracker:
    """Feed the text with `advance`, then ask `is_quoted` about the place behind it."""

    __slots__ = (
        "_begins_answer",
        "_block",
        "_closing",
        "_column",
        "_fence",
        "_inline",
        "_last",
        "_line_start",
        "_margin",
        "_markup",
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
        #: Whether a quotation is open, and whether the whole line is quoted.
        self._quote = False
        self._block = False
        self._line_start = True
        #: Whether only blanks stand between this place and what encloses the answer.
        self._begins_answer = False
        #: A run of backticks or tildes that may still grow, and whether it began its line.
        self._run: tuple[str, int, bool] | None = None
        #: The last two characters of the text, and of the text without the blanks at its end.
        self._tail = "\n\n"
        self._last = ""
        #: The first character of the last line that is neither blank nor indented.
        self._margin = ""
        #: The width of the blanks that the line consists of so far; -1 if it has other characters.
        self._column = 0
        self._markup = _MarkupTracker()

    @property
    def is_fenced(self) -> bool:
        """Whether a fence is open and this line cannot close it."""
        return self._fence is not None and not self._closing

    @property
    def is_enclosed(self) -> bool:
        """Whether a fence or markup is open. Changes nothing: a run of backticks may still grow."""
        return self._fence is not None or self._markup.is_open

    @property
    def is_in_quotation(self) -> bool:
        """Whether this place is in a quotation that spans lines: a code fence, or markup.

        Changes the state: a run of backticks counts as complete from now on. So ask only where it cannot grow
        any more; elsewhere ask `is_enclosed`.
        """
        self._end_run()
        return self.is_enclosed or self._opening is not None

    @property
    def is_quoted(self) -> bool:
        """Whether the next character is quoted: it is in a quotation, or right behind what begins one."""
        return (
            self.is_in_quotation
            or bool(self._inline)
            or self._block
            or self._quote
            or self._is_behind_mark
            or (self._tail[1] in _LONE_QUOTES and self._tail[0] in _BEFORE_AN_OPENING_QUOTE)
        )

    @property
    def _is_behind_mark(self) -> bool:
        """Whether what stands before this place makes it a part of a quotation, a list, a diff or a table."""
        last = self._last[-1:]
        if self.column < 0:
            return last in _LINE_MARKS or last in _OPENING
        if self.column > 0 and self._margin in _ITEM_MARKS:
            return True
        is_latex = self._margin == "\\" and last == "}"
        is_quote = last == "“" and self._last[:1] in _BEFORE_A_LONE_QUOTE
        return last in _OPENING or self._last in _LONG_QUOTES or is_latex or is_quote

    @property
    def column(self) -> int:
        """The width of the blanks before this place on its line; -1 if other characters stand there."""
        return -1 if self._run is not None else self._column

    @property
    def is_after_blank(self) -> bool:
        """Whether the last character is blank."""
        return self._tail[1].isspace()

    @property
    def is_after_sentence(self) -> bool:
        """Whether the last character that is not blank ends a sentence."""
        return self._last[-1:] in _SENTENCE_ENDS

    def start_line(self) -> None:
        """Let the next character begin a line. Called after a part that is no text."""
        self._end_line()
        self._tail = "\n\n"
        self._last = ""

    def quote_line(self) -> None:
        """Treat the rest of the line as quoted, so that no call is found in it."""
        self._block = True

    def forget_last(self) -> None:
        """Ignore the last character: it does not quote the text that follows."""
        self._last = ""

    @property
    def is_steady(self) -> bool:
        """Whether text without significant characters changes only the last characters."""
        return not (self._line_start or self._closing or self._run is not None or self._markup.is_in_tag)

    @property
    def keeps_lines_alike(self) -> bool:
        """Whether text without quoting characters leaves open what is open now, however many lines it has."""
        return self._opening is None and not (
            self._closing or self._run is not None or self._markup.is_in_tag
        )

    def advance_lines(self, text: str) -> None:
        """Add a text without quoting characters, if `keeps_lines_alike`.

        Each line end resets what stands before a place. So only the last lines are read, with one that is
        neither blank nor indented, and the first line end.
        """
        start = text.rfind("\n", 0, max(0, len(text) - _READ_AT_END))
        if start < 0 or not _LINE.search(text, start):
            start = 0
        self.advance(text, start, len(text))

    def skip(self, text: str) -> None:
        """Add a text without significant characters. Only its end is kept."""
        self._keep_end(text)

    def advance(self, text: str, start: int, end: int) -> None:
        """Update the quotation state with the text between two positions."""
        position = start
        for found in _SPECIAL.finditer(text, start, end):
            self._skip_plain(text, position, found.start())
            before = (self._tail + text[max(start, found.start() - 2) : found.start()])[-2:]
            self._read_special(found[0], before)
            position = found.end()
        self._skip_plain(text, position, end)
        if end > start:
            self._keep_end(text[start:end])

    def _keep_end(self, text: str) -> None:
        if content := text.rstrip():
            self._last = (self._tail + content)[-2:]
        self._tail = (self._tail + text)[-2:]

    def _skip_plain(self, text: str, start: int, end: int) -> None:
        if start == end:
            return
        self._end_run()
        self._markup.add(text[start:end])
        has_content = _NOT_BLANK.search(text, start, end) is not None
        if self._closing and has_content:
            self._closing = False
        if has_content:
            if self._column == 0 and not text[start].isspace():
                self._margin = text[start]
            self._column = -1
        elif self._column >= 0:
            self._column += sum(_TAB_WIDTH if character == "\t" else 1 for character in text[start:end])
        if has_content:
            self._begins_answer = False
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
        begins_answer = False
        if self._fence is None and not self._inline:
            if character == "<":
                self._markup.open_tag(0 if self._begins_answer else self._column)
            elif character == ">":
                self._block = self._block or self._line_start
                begins_answer = self._markup.close_tag(before)
            elif character == "”":
                self._quote = False
            else:
                is_opening = character == "“" or before[1:] in _BEFORE_AN_OPENING_QUOTE
                self._quote = not self._quote and is_opening
                self._markup.add(character)
        self._line_start = self._begins_answer = begins_answer
        self._margin = character if self._column == 0 else self._margin
        self._column = 0 if begins_answer else -1

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
        self._line_start = self._begins_answer = False
        self._margin = character if self._column == 0 else self._margin
        self._column = -1
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
        self._begins_answer = False
        self._column = 0
        self._markup.end_line()
