"""What an agent writes into the system text of a request: its instructions, the project, markers and tags.

Only text that the agent itself sends as instructions is searched. Tool results, files and the answers of the
model may contain the same words, and must not decide where a request goes.
"""

import re
from collections.abc import Iterator, Mapping

from dragoman.hub.blocks import Text
from dragoman.hub.request import Request

#: Claude Code sends the text of CLAUDE.md in the first message of the user, inside this tag.
REMINDER = "<system-reminder>"

#: Where an agent's instructions name the folder that it works in.
_PROJECT = re.compile(
    r"(?:(?i:\bworking directory): *"
    r"|<cwd>"
    r"|(?i:\bworkspace directories)[*:]*\s*(?:- +)?"
    r"|(?i:currently working in the (?:following )?director(?:y|ies)): *(?:\n *- +)?)"
    r"([^\n<]{1,400})"
)

#: Every beginning of the pattern has one of these: the word `directory` after one of two others, or a tag.
#: The numbers are characters before the hint, and characters of the pattern in all.
_PROJECT_HINTS = ("irector", "<cwd>")
_BEFORE_DIRECTORY = ("orking", "orkspace")
_BEFORE_HINT = 50
_AROUND_HINT = 600

#: A tag at the beginning of a system text names the model of a sub-agent. The first is known to the users
#: of claude-code-router.
_MODEL_TAG = re.compile(r"\s*(<(CCR-SUBAGENT-MODEL|DRAGOMAN-MODEL)>([^<>\n]{1,200})</\2>)")


def list_instructions(request: Request) -> Iterator[str]:
    """The system texts of a request, in order, with those that Claude Code puts before the first prompt."""
    has_seen_user = False
    for message in request.messages:
        if message.role in ("system", "developer"):
            yield from (block.text for block in message.blocks if isinstance(block, Text))
        elif message.role == "user" and not has_seen_user:
            has_seen_user = True
            texts = (block.text for block in message.blocks if isinstance(block, Text))
            yield from (text for text in texts if text.lstrip().startswith(REMINDER))


def find_last_user_text(request: Request) -> str:
    """The last text of the user; empty if the last message of the user has none."""
    message = next((message for message in reversed(request.messages) if message.role == "user"), None)
    texts = [block.text for block in message.blocks if isinstance(block, Text)] if message else []
    return texts[-1].strip() if texts else ""


def find_project(request: Request) -> str:
    """The folder that the agent works in; empty if its instructions do not name it."""
    for text in (*list_instructions(request), *_list_first_user_texts(request)):
        found = _search_project(text)
        if found:
            return found.strip().rstrip("/")
    return ""


def _search_project(text: str) -> str:
    """The first folder that a text names. To find a plain word is many times faster than the pattern."""
    for place in _find_hints(text):
        start = max(0, place - _BEFORE_HINT)
        before = text[start:place]
        if text[place] == "<" or any(word in before for word in _BEFORE_DIRECTORY):
            found = _PROJECT.search(text, start, start + _AROUND_HINT)
            if found and found.start() <= place:
                return found[1]
    return ""


def _find_hints(text: str) -> Iterator[int]:
    """The places of all hints, in order."""
    places = {hint: place for hint in _PROJECT_HINTS if (place := text.find(hint)) >= 0}
    while places:
        hint = min(places, key=places.__getitem__)
        yield places[hint]
        places[hint] = text.find(hint, places[hint] + 1)
        if places[hint] < 0:
            del places[hint]


def _list_first_user_texts(request: Request) -> Iterator[str]:
    """The texts of the user before the model's first answer.

    Codex and Gemini CLI write the working folder there.
    """
    for message in request.messages:
        if message.role == "assistant":
            return
        if message.role == "user":
            yield from (block.text for block in message.blocks if isinstance(block, Text))


def find_roles(request: Request, markers: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """The roles whose markers the instructions contain. `markers` are the texts of each role."""
    texts = tuple(list_instructions(request))
    return frozenset(
        role for role, words in markers.items() if any(word in text for word in words for text in texts)
    )


def find_model_tag(request: Request) -> tuple[str, str]:
    """The tag that names the model of a sub-agent, and the name in it; both are empty without one."""
    for message in request.messages:
        if message.role not in ("system", "developer"):
            continue
        for block in message.blocks:
            found = _MODEL_TAG.match(block.text) if isinstance(block, Text) else None
            if found:
                return found[1], found[3].strip()
    return "", ""
