"""HTML as text that a model can read: paragraphs, headings, lists and links, without scripts and styles.

Pages are untrusted: the time is linear in the length of a page, also of one that is made to be slow. So the
standard library's parser is not used. Like browsers, the reader drops what follows a tag, a comment or a
script that has no end.
"""

import re
from html import unescape

#: Elements whose content is no markup, up to their end tag.
_RAW = frozenset({"script", "style", "noscript", "iframe", "title", "textarea"})
#: Elements with markup inside that is no text of the page.
_SKIPPED = frozenset({"template", "svg"})
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|d[dlt]|div|fieldset|figure|footer|form|h[1-6r]|header|li|main|nav|[ou]l|p|pre"
    "|section|table|t[dhr]"
)
_TEXT = re.compile(r"[^<]++")
# Possessive, because a tag without an end must not be tried again at each of its characters.
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*\"|'[^']*')?)*+)>")
_HREF = re.compile(r"(?i)(?:^|[\s/\"'])href\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))")
_BLANKS = re.compile(r"[ \t\f\r\n]+")
_EMPTY_LINES = re.compile(r"\n\s*\n\s*")


class PageReader:
    """Collects the text and the title of one page. Call `read` once."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._parts: list[str] = []
        self._links: list[str] = []
        #: The outermost skipped element, and how many of its kind are open.
        self._skipped = ""
        self._depth = 0
        self.title = ""

    def read(self) -> None:
        html, place = self._html, 0
        while 0 <= place < len(html):
            text = _TEXT.match(html, place)
            if text is not None:
                self._add_text(text[0])
                place = text.end()
            elif html.startswith("<!--", place):
                place = self._find_end("-->", place + 2)
            elif html.startswith(("<!", "<?"), place):
                place = self._find_end(">", place)
            elif html[place + 1 : place + 2].isalpha() or html[place + 1 : place + 2] == "/":
                place = self._read_tag(place)
            else:
                self._add_text("<")
                place += 1

    @property
    def text(self) -> str:
        lines = (line.strip() for line in "".join(self._parts).splitlines())
        return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()

    def _find_end(self, mark: str, place: int) -> int:
        """The place after the mark; the end of the page if there is none."""
        found = self._html.find(mark, place)
        return len(self._html) if found < 0 else found + len(mark)

    def _read_tag(self, place: int) -> int:
        """Read the tag at a place. Returns the place after it, or after its element if that is not markup."""
        tag = _TAG.match(self._html, place)
        if tag is None:
            # Without a name it is a comment. Otherwise it has no end.
            is_comment = not self._html[place + 1 : place + 3].lstrip("/")[:1].isalpha()
            return self._find_end(">", place) if is_comment else len(self._html)
        name = tag[2].lower()
        if tag[1]:
            self._end_element(name)
        elif name in _RAW:
            return self._read_raw(name, tag.end())
        else:
            self._begin_element(name, tag[3])
        return tag.end()

    def _read_raw(self, name: str, place: int) -> int:
        end = re.compile(rf"(?i)</{name}(?=[\s/>])").search(self._html, place)
        if name == "title" and not self.title and not self._skipped:
            self.title = _decode(self._html[place : end.start() if end else None])
        return self._find_end(">", end.end()) if end else len(self._html)

    def _begin_element(self, name: str, attributes: str) -> None:
        if self._skipped or name in _SKIPPED:
            self._skipped = self._skipped or name
            self._depth += (name == self._skipped) and not attributes.endswith("/")
            if not self._depth:
                self._skipped = ""
            return
        if _BLOCK.fullmatch(name):
            self._parts.append("\n- " if name == "li" else "\n")
        if len(name) == 2 and name[0] == "h" and name[1].isdigit():
            self._parts.append("#" * int(name[1]) + " ")
        if name == "a":
            found = _HREF.search(attributes)
            self._links.append(_decode(found[1] or found[2] or found[3] or "") if found else "")

    def _end_element(self, name: str) -> None:
        if self._skipped:
            self._depth -= name == self._skipped
            if not self._depth:
                self._skipped = ""
            return
        if name == "a" and self._links:
            link = self._links.pop()
            if link.startswith(("http://", "https://")):
                self._parts.append(f" ({link})")
        if _BLOCK.fullmatch(name):
            self._parts.append("\n")

    def _add_text(self, text: str) -> None:
        if not self._skipped:
            self._parts.append(_BLANKS.sub(" ", _decode(text)))


def _decode(text: str) -> str:
    """The text with the characters that its entities stand for."""
    try:
        return unescape(text)
    except ValueError:
        # A number with more digits than Python reads.
        return text


def read_page(html: str) -> tuple[str, str]:
    """The title and the text of a page."""
    reader = PageReader(html)
    reader.read()
    return _BLANKS.sub(" ", reader.title).strip(), reader.text
