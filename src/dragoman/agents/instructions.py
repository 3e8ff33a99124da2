"""What an agent writes into the system text of a request: its instructions, the project, markers and tags.

Only text that the agent itself sends as instructions is searched. Tool results, files and the answers of the
model may contain the same words, and must not decide where a request goes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from dragoman.hub.blocks import Text
from dragoman.hub.request import Message

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
#: Texts of which one is in each body whose instructions name a project, or a model.
PROJECT_TEXTS = _PROJECT_HINTS
MODEL_TAG_TEXTS = ("CCR-SUBAGENT-MODEL", "DRAGOMAN-MODEL")
_BEFORE_DIRECTORY = ("orking", "orkspace")
_BEFORE_HINT = 50
_AROUND_HINT = 600

#: A tag at the beginning of a system text names the model of a sub-agent. The first is known to the users
#: of claude-code-router. A reminder begins with its own tag, so no text of the user can have this one.
_MODEL_TAG = re.compile(r"\s*(<(CCR-SUBAGENT-MODEL|DRAGOMAN-MODEL)>([^<>\n]{1,200})</\2>)")


def list_instructions(messages: Iterable[Message]) -> Iterator[str]:
    """The system texts of a request, in order, with those that Claude Code puts before the first prompt."""
    has_seen_user = False
    for message in messages:
        if message.role in ("system", "developer"):
            yield from (block.text for block in message.blocks if isinstance(block, Text))
        elif message.role == "user" and not has_seen_user:
            has_seen_user = True
            texts = (block.text for block in message.blocks if isinstance(block, Text))
            yield from (text for text in texts if text.lstrip().startswith(REMINDER))


def find_last_user_text(messages: Sequence[Message]) -> str | None:
    """The last text of the user; empty if the last message of the user has none; None without such one."""
    for message in reversed(messages):
        if message.role == "user":
            texts = [block.text for block in message.blocks if type(block) is Text]
            return texts[-1].strip() if texts else ""
    return None


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


def _list_first_user_texts(messages: Iterable[Message]) -> Iterator[str]:
    """The texts of the user before the model's first answer.

    Codex and Gemini CLI write the working folder there.
    """
    for message in messages:
        if message.role == "assistant":
            return
        if message.role == "user":
            yield from (block.text for block in message.blocks if isinstance(block, Text))


class Instructions:
    """The instructions of a request, and what was found in them: each search is made once."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._texts = tuple(list_instructions(messages))
        #: Texts that name the project, although they are no instructions.
        self._first_texts = tuple(_list_first_user_texts(messages))
        self._found: dict[tuple[str, ...], bool] = {}
        self._roles: tuple[Mapping[str, tuple[str, ...]], frozenset[str]] | None = None

    def contains(self, words: tuple[str, ...]) -> bool:
        """Whether any text of the instructions contains at least one of `words`."""
        found = self._found.get(words)
        if found is None:
            found = self._found[words] = any(word in text for text in self._texts for word in words)
        return found

    def find_roles(self, markers: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
        """The roles whose markers the instructions contain. `markers` are the texts of each role."""
        # A configuration has one such mapping, and it does not change.
        if self._roles is None or self._roles[0] is not markers:
            self._roles = markers, frozenset(role for role in markers if self.contains(markers[role]))
        return self._roles[1]

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
