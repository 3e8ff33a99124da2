"""The format of a case: one readable file with what came in and what must come out.

Comment lines give the title and the rules that the case covers. Sections follow, each headed by
`== kind dialect` and further words. A section's text has no blank lines around it.

    == request <dialect> [model]       the client's body; `model` is the one in the URL, for Gemini
    == profile <dialect>               facts about the target, as JSON
    == to <dialect>                    the body that the target must get
    == upstream <dialect> [escaped] [then <ending>]    the bytes of a stream, and how the connection ended
    == upstream <dialect> <status>     an HTTP error: headers, a blank line, the body
    == client <dialect>                what a client of this dialect must get

An `escaped` stream has no line ends but those it writes as `\\x0a`. An envelope of ours is written as
`<<its JSON>>` (`<<base64 its JSON>>` in Gemini's field), because compressed bytes differ between builds of
zlib. What a Responses reply repeats of the usual request is written as `<<echo>>`. Losses follow the expected
text as `losses:` lines.
"""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from dragoman.hub.loss import Loss
from dragoman.hub.seal import PREFIX, SealedItem, read_envelope, write_envelope

HERE = Path(__file__).resolve().parent
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
HEADING = re.compile(r"== (request|profile|to|upstream|client) (\w+)((?: \S+)*)")
RULE = re.compile(r"[RCHPDGSFM][1-9]\d*")
LOSS = "losses: "

_ENVELOPE = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]+|ZGdtMS[A-Za-z0-9+/]+=*")
_SPELLED_ENVELOPE = re.compile(r"<<(base64 )?(\[.*?\])>>")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_ECHO = msgspec.json.format(
    (HERE / "requests" / "openai_responses.echo.json").read_bytes(), indent=-1
).decode()
_carried = msgspec.json.Decoder(tuple[SealedItem, ...])


class Section(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    dialect: str
    words: tuple[str, ...] = ()
    text: str = ""

    @property
    def heading(self) -> str:
        return " ".join(("==", self.kind, self.dialect, *self.words))


class Case(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    comments: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def name(self) -> str:
        return self.path.relative_to(HERE).with_suffix("").as_posix()

    @property
    def rules(self) -> tuple[str, ...]:
        lines = (line.removeprefix("# rules:") for line in self.comments if line.startswith("# rules:"))
        return tuple(word for line in lines for word in line.split())

    def find(self, kind: str, dialect: str = "") -> Section | None:
        return next((s for s in self.sections if s.kind == kind and dialect in ("", s.dialect)), None)

    @property
    def clients(self) -> tuple[str, ...]:
        """The dialects of the reply's clients: those that the case names, or else all."""
        if self.find("upstream") is None:
            return ()
        named = [section.dialect for section in self.sections if section.kind == "client"]
        asking = [section.dialect for section in self.sections if section.kind == "request"]
        return tuple(named or asking or DIALECTS)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(section.dialect for section in self.sections if section.kind == "to")


class Outcome(msgspec.Struct, frozen=True):
    """What came out: the text of an expected section."""

    text: str
    losses: tuple[Loss, ...] = ()

    def __str__(self) -> str:
        lines = [readable(self.text)] if self.text else []
        return "\n".join([*lines, *(f"{LOSS}{loss}" for loss in self.losses)])


def case_files() -> list[Path]:
    return sorted(HERE.rglob("*.txt"))


def read_case(path: Path) -> Case:
    comments: list[str] = []
    sections: list[tuple[re.Match[str], list[str]]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        heading = HEADING.fullmatch(line)
        if heading:
            sections.append((heading, []))
        elif sections:
            sections[-1][1].append(line)
        elif line.startswith("#"):
            comments.append(line)
        elif line:
            raise ValueError(f"{path}:{number}: neither a comment nor a section")
    return Case(
        path=path,
        comments=tuple(comments),
        sections=tuple(
            Section(
                kind=heading[1],
                dialect=heading[2],
                words=tuple(heading[3].split()),
                text="\n".join(lines).strip("\n"),
            )
            for heading, lines in sections
        ),
    )


def written(case: Case) -> str:
    """The file that reads as this case."""
    parts = ["\n".join(case.comments)]
    parts += [f"{section.heading}\n{section.text}".rstrip("\n") for section in case.sections]
    return "\n\n".join(parts) + "\n"


def given_bytes(section: Section) -> bytes:
    """The bytes that an upstream section stands for: complete frames, unless it spells its bytes itself."""
    text = fold_envelopes(section.text).encode()
    if "escaped" in section.words:
        return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), text.replace(b"\n", b""))
    return text + b"\n\n" if text else b""


def readable(text: str) -> str:
    """The text with envelopes decoded and the repeated text of a response shortened."""
    return _ENVELOPE.sub(_spelled, text.replace(_ECHO[1:-1], "<<echo>>"))


def _spelled(envelope: re.Match[str]) -> str:
    encoded = not envelope[0].startswith(PREFIX)
    items = read_envelope(base64.b64decode(envelope[0]).decode() if encoded else envelope[0])
    if items is None:
        raise ValueError("an envelope that does not open")
    return f"<<{'base64 ' if encoded else ''}{msgspec.json.encode(items).decode()}>>"


def fold_envelopes(text: str) -> str:
    """The text with its spelled envelopes as a client would send them."""
    return _SPELLED_ENVELOPE.sub(_folded, text)


def _folded(spelled: re.Match[str]) -> str:
    envelope = write_envelope(_carried.decode(spelled[2]))
    return base64.b64encode(envelope.encode()).decode() if spelled[1] else envelope


def filled(
    case: Case, reply: Callable[[Case, str], Outcome], request: Callable[[Case, str], Outcome]
) -> Case:
    """The case with every expected section as the two functions give it; missing ones are added."""
    wanted = {("client", client): reply for client in case.clients}
    wanted |= {("to", target): request for target in case.targets}
    sections = list(_refilled(case, wanted))
    present = {(section.kind, section.dialect) for section in sections}
    sections += [
        Section(kind=kind, dialect=dialect, text=str(run(case, dialect)))
        for (kind, dialect), run in wanted.items()
        if (kind, dialect) not in present
    ]
    return msgspec.structs.replace(case, sections=tuple(sections))


def _refilled(case: Case, wanted: dict[tuple[str, str], Callable[[Case, str], Outcome]]) -> Iterator[Section]:
    for section in case.sections:
        run = wanted.get((section.kind, section.dialect))
        yield msgspec.structs.replace(section, text=str(run(case, section.dialect))) if run else section
