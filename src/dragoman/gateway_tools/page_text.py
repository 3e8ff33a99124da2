"""HTML as text that a model can read: paragraphs, headings, lists and links, without scripts and styles."""

import re
from html.parser import HTMLParser

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "head"})
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|d[dlt]|div|fieldset|figure|footer|form|h[1-6r]|header|li|main|nav|[ou]l|p|pre"
    "|section|table|t[dhr]"
)
_BLANKS = re.compile(r"[ \t\f\r\n]+")
_EMPTY_LINES = re.compile(r"\n\s*\n\s*")


class PageReader(HTMLParser):
    """Collects the text and the title of one page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._skipped: list[str] = []
        self._is_in_title = False
        self._links: list[str] = []
        self.title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._is_in_title = True
        if tag in _SKIPPED:
            self._skipped.append(tag)
        if self._skipped:
            return
        if _BLOCK.fullmatch(tag):
            self._parts.append("\n- " if tag == "li" else "\n")
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self._parts.append("#" * int(tag[1]) + " ")
        if tag == "a":
            self._links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._is_in_title = False
        if tag in self._skipped:
            while self._skipped.pop() != tag:
                pass
        if self._skipped:
            return
        if tag == "a" and self._links:
            link = self._links.pop()
            if link.startswith(("http://", "https://")):
                self._parts.append(f" ({link})")
        if _BLOCK.fullmatch(tag):
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._is_in_title:
            self.title += data
        elif not self._skipped:
            self._parts.append(_BLANKS.sub(" ", data))

    @property
    def text(self) -> str:
        lines = (line.strip() for line in "".join(self._parts).splitlines())
        return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()


def read_page(html: str) -> tuple[str, str]:
    """The title and the text of a page."""
    reader = PageReader()
    reader.feed(html)
    reader.close()
    return _BLANKS.sub(" ", reader.title).strip(), reader.text
