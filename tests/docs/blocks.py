"""The code blocks of the README and of the documentation."""

import re
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: A command of the gateway within a text or a table.
_INLINE = re.compile(r"`(dragoman [^`]+)`")
#: Behind a command that a test cannot run: it needs an account, a program or a server of the user.
_MARK = re.compile(r"#.*\bneeds\b")
_COMMENT = re.compile(r"\s+#.*$")


class Block(msgspec.Struct, frozen=True):
    """One code block: its page, its language and its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The lines that a reader can type, without comments and without those that need something else."""
        lines = [line for line in self.text.splitlines() if line.strip() and not _MARK.search(line)]
        return [_COMMENT.sub("", line) for line in lines]


def list_inline_commands() -> list[tuple[str, str]]:
    """The commands within texts and tables, each with its page."""
    found = []
    for path in PAGES:
        text = _BLOCK.sub("", path.read_text("utf-8"))
        found += [(str(path.relative_to(ROOT)), command) for command in _INLINE.findall(text)]
    return list(dict.fromkeys(found))


def list_blocks(*languages: str) -> list[Block]:
    """The blocks in these languages, of all pages; without a language, those that name none."""
    blocks = []
    for path in PAGES:
        text = path.read_text("utf-8")
        for found in _BLOCK.finditer(text):
            if found[1] in (languages or ("",)):
                line = text.count("\n", 0, found.start()) + 1
                blocks.append(Block(str(path.relative_to(ROOT)), line, found[1], found[2]))
    return blocks
