"""What a user asks of the embedded model, found in plain words.

    read FILE · list [DIRECTORY] · run COMMAND · call TOOL {ARGUMENTS} · say TEXT · think
    fail · fail with STATUS · fail midway · break off

A wish is a clause that begins with one of these verbs. Wishes joined by `and` or a comma are carried out
at once; `then`, a semicolon, a full stop or a new line begins the next turn. Quotes and backticks hold
together what they hold.
"""

import re

import msgspec

#: A prompt is short; what agents add to it is not.
MAX_TEXT = 20_000

_TAG = re.compile(r"<(/?)([A-Za-z][\w.-]{0,63})(?: [^<>\n]{0,200})?>")
_HELD = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|\{[^{}\n]*\}")
_HOLDER = re.compile("\0(\\d+)\0")
_BLANKS = re.compile(r"[^\S\n]+")
# Blanks are single by the time these are used, so that none of them can make another look twice.
_NEXT_TURN = re.compile(r"\n+ ?|; |(?<=[\w\0)])[.!?](?: |\n|$)|,? ?\b(?:and )?then\b,? ?", re.IGNORECASE)
_AT_ONCE = re.compile(r"(,? and |, | & )", re.IGNORECASE)
_POLITE = r"(?:please|now|first|also|just|can you|could you|i want you to|use your tools to|and)"
_WISH = re.compile(
    rf"(?:{_POLITE}[ ,]+)*(read|open|list|run|execute|call|say|think|fail|break off)\b[:,]? ?(.*)",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:(?:me|the|a|an|file|files|command|tool|contents?|of|in|at|all|called|named) )*", re.IGNORECASE
)
_STATUS = re.compile(r"(?:with )?(?:status |code |a |an )*(4\d\d|5\d\d)", re.IGNORECASE)
_PATH = re.compile(r"[\w~./\\:@+-]*[./\\][\w~./\\:@+-]*")

_SYNONYMS = {"open": "read", "execute": "run"}
_HERE = frozenset({("list", "files"), ("list", "everything"), ("list", "directory"), ("list", "here")})
_ALONE = frozenset({"list", "think", "fail", "break off"})
#: Wishes that take a tool to carry out.
ACTING = frozenset({"read", "list", "run", "call"})


class Wish(msgspec.Struct, frozen=True):
    """`object` is what stands behind the verb, without its quotes if it is one quotation."""

    verb: str
    object: str = ""


def wishes_in(text: str) -> list[list[Wish]]:
    """The wishes of a prompt, as turns of wishes to carry out at once."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0"

    def given_back(part: str) -> str:
        alone = _HOLDER.fullmatch(part.strip())
        if alone and not held[int(alone[1])].startswith("{"):
            return held[int(alone[1])][1:-1].strip()
        return _HOLDER.sub(lambda found: held[int(found[1])], part).strip()

    turns: list[list[Wish]] = []
    for clause in _NEXT_TURN.split(_BLANKS.sub(" ", _HELD.sub(hold, _bare(text)))):
        wishes: list[Wish] = []
        parts = ["", *_AT_ONCE.split(clause)]
        for joint, part in zip(parts[::2], parts[1::2], strict=True):
            found = _WISH.fullmatch(part.strip())
            if found:
                verb = _SYNONYMS.get(found[1].lower(), found[1].lower())
                rest = _FILLER.sub("", found[2], count=1) if verb in ACTING else found[2]
                wish = Wish(verb, "" if (verb, rest) in _HERE else given_back(rest))
                if wish.object or verb in _ALONE:
                    wishes.append(wish)
            elif wishes and wishes[-1].verb == "say":
                wishes[-1] = Wish("say", f"{wishes[-1].object}{joint}{given_back(part)}")
            elif wishes and wishes[-1].verb == "read" and _PATH.fullmatch(given_back(part)):
                # `read a.txt and b.txt`
                wishes.append(Wish("read", given_back(part)))
        if wishes:
            turns.append(wishes)
    return turns


def status_in(wish: Wish) -> int:
    """The HTTP status that a failure was asked to have."""
    found = _STATUS.match(wish.object)
    return int(found[1]) if found else 500


def _bare(text: str) -> str:
    """The user's own words: without what agents wrap in tags, and without quotes around it all."""
    text = without_context(text[-MAX_TEXT:].replace("\0", "")).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]:
        return text[1:-1]
    return text


def without_context(text: str) -> str:
    """The text without `<tag>…</tag>` blocks, in one pass; a closing tag alone ends a block that was cut."""
    kept: list[str] = []
    begun, name, depth = 0, "", 0
    for tag in _TAG.finditer(text):
        closing, found = bool(tag[1]), tag[2]
        if not depth and closing:
            kept, begun = [], tag.end()
        elif not depth:
            kept.append(text[begun : tag.start()])
            begun, name, depth = tag.start(), found, 1
        elif found == name:
            depth += -1 if closing else 1
            begun = begun if depth else tag.end()
    return "".join((*kept, text[begun:]))
