"""Finds commands of the embedded model in plain text.

    read FILE · list [DIRECTORY] · run COMMAND · call TOOL {ARGUMENTS} · say TEXT · think
    fail · fail with STATUS · fail midway · break off

A command is a clause that begins with one of these verbs. Commands joined by `and` or a comma belong to one
turn. `then`, a semicolon, a full stop or a new line begins the next turn. Quotes, backticks and braces
protect their content.
"""

import re

import msgspec

#: Characters of a prompt that are searched, from its end.
MAX_TEXT = 20_000

_TAG = re.compile(r"<(/?)([A-Za-z][\w.-]{0,63})(?: [^<>\n]{0,200})?>")
_PROTECTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|\{[^{}\n]*\}")
_PLACEHOLDER = re.compile("\0(\\d+)\0")
_BLANKS = re.compile(r"[^\S\n]+")
# The patterns below see single blanks only, so that none of them backtracks over runs of blanks.
_NEXT_TURN = re.compile(r"\n+ ?|; |(?<=[\w\0)])[.!?](?: |\n|$)|,? ?\b(?:and )?then\b,? ?", re.IGNORECASE)
_SAME_TURN = re.compile(r"(,? and |, | & )", re.IGNORECASE)
_POLITE = r"(?:please|now|first|also|just|can you|could you|i want you to|use your tools to|and)"
_COMMAND = re.compile(
    rf"(?:{_POLITE}[ ,]+)*(read|open|list|run|execute|call|say|think|fail|break off)\b[:,]? ?(.*)",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:(?:me|the|a|an|file|files|command|tool|contents?|of|in|at|all|called|named) )*", re.IGNORECASE
)
_STATUS = re.compile(r"(?:with )?(?:status |code |a |an )*(4\d\d|5\d\d)", re.IGNORECASE)
_PATH = re.compile(r"[\w~./\\:@+-]*[./\\][\w~./\\:@+-]*")

_SYNONYMS = {"open": "read", "execute": "run"}
#: Objects of `list` that mean the current directory.
_CURRENT_DIRECTORY = frozenset({"files", "everything", "directory", "here"})
_WITHOUT_OBJECT = frozenset({"list", "think", "fail", "break off"})
#: Verbs that need a tool of the client.
TOOL_VERBS = frozenset({"read", "list", "run", "call"})


class PromptCommand(msgspec.Struct, frozen=True):
    """One command. `object` is the text after the verb, without quotes if it is one quotation."""

    verb: str
    object: str = ""


def find_commands(text: str) -> list[list[PromptCommand]]:
    """Find the commands of a prompt. Each inner list is one turn of commands to carry out together."""
    protected: list[str] = []

    def protect(match: re.Match[str]) -> str:
        protected.append(match[0])
        return f"\0{len(protected) - 1}\0"

    def restore(part: str) -> str:
        single = _PLACEHOLDER.fullmatch(part.strip())
        if single and not protected[int(single[1])].startswith("{"):
            return protected[int(single[1])][1:-1].strip()
        return _PLACEHOLDER.sub(lambda match: protected[int(match[1])], part).strip()

    turns: list[list[PromptCommand]] = []
    for clause in _NEXT_TURN.split(_BLANKS.sub(" ", _PROTECTED.sub(protect, _read_prompt(text)))):
        turn: list[PromptCommand] = []
        parts = ["", *_SAME_TURN.split(clause)]
        for joint, part in zip(parts[::2], parts[1::2], strict=True):
            match = _COMMAND.fullmatch(part.strip())
            last = turn[-1].verb if turn else ""
            if match:
                verb = _SYNONYMS.get(match[1].lower(), match[1].lower())
                rest = _FILLER.sub("", match[2], count=1) if verb in TOOL_VERBS else match[2]
                is_here = verb == "list" and rest in _CURRENT_DIRECTORY
                command = PromptCommand(verb, "" if is_here else restore(rest))
                if command.object or verb in _WITHOUT_OBJECT:
                    turn.append(command)
            elif last == "say":
                turn[-1] = PromptCommand("say", f"{turn[-1].object}{joint}{restore(part)}")
            elif last == "read" and _PATH.fullmatch(restore(part)):
                # The second file of `read a.txt and b.txt`.
                turn.append(PromptCommand("read", restore(part)))
        if turn:
            turns.append(turn)
    return turns


def read_status(command: PromptCommand) -> int:
    """Read the HTTP status of a `fail` command; 500 if it names none."""
    match = _STATUS.match(command.object)
    return int(match[1]) if match else 500


def _read_prompt(text: str) -> str:
    """Return the user's own text: without tagged context, and without quotes around all of it."""
    text = remove_context(text[-MAX_TEXT:].replace("\0", "")).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]:
        return text[1:-1]
    return text


def remove_context(text: str) -> str:
    """Remove `<tag>…</tag>` blocks, in which agents wrap context of their own.

    A closing tag without its opening tag ends a block whose beginning was cut off. One pass, so the time is
    linear in the length of the text.
    """
    kept: list[str] = []
    start, name, depth = 0, "", 0
    for tag in _TAG.finditer(text):
        is_closing, tag_name = bool(tag[1]), tag[2]
        if not depth and is_closing:
            kept, start = [], tag.end()
        elif not depth:
            kept.append(text[start : tag.start()])
            start, name, depth = tag.start(), tag_name, 1
        elif tag_name == name:
            depth += -1 if is_closing else 1
            start = start if depth else tag.end()
    return "".join((*kept, text[start:]))
