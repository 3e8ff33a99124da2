"""What an agent writes into the system text of a request: its instructions, the project, markers and tags.

Only text that the agent itself sends as instructions is searched. Tool results, files and the answers of the
model may contain the same words, and must not decide where a request goes.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

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
#: of claude-code-router. A reminder begins with its own tag, so no text of the user can have this one.
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


class Instructions:
    """The instructions of a request, and what was found in them: each search is made once."""

    def __init__(self, request: Request) -> None:
        self._texts = tuple(list_instructions(request))
        #: Texts that name the project, although they are no instructions.
        self._first_texts = tuple(_list_first_user_texts(request))
        self._found: dict[tuple[str, ...], bool] = {}

    def has_texts_of(self, other: "Instructions") -> bool:
        """Whether every search finds the same in both."""
        return self._texts == other._texts and self._first_texts == other._first_texts

    def contains(self, words: tuple[str, ...]) -> bool:
        """Whether a text contains one of the words."""
        found = self._found.get(words)
        if found is None:
            found = self._found[words] = any(word in text for text in self._texts for word in words)
        return found

    def find_roles(self, markers: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
        """The roles whose markers the instructions contain. `markers` are the texts of each role."""
        return frozenset(role for role, words in markers.items() if self.contains(words))

    @cached_property
    def project(self) -> str:
        """The folder that the agent works in; empty if its instructions do not name it."""
        for text in (*self._texts, *self._first_texts):
            found = _search_project(text)
            if found:
                return found.strip().rstrip("/")
        return ""

    @cached_property
    def model_tag(self) -> tuple[str, str]:
        """The tag that names the model of a sub-agent, and the name in it; both are empty without one."""
        found = next(filter(None, map(_MODEL_TAG.match, self._texts)), None)
        return (found[1], found[3].strip()) if found else ("", "")
