"""`BodySearch`: which words may stand in a request's body, by a search for bytes.

What a rule asks for often has a word that its request must contain: the type of an image, a marker, the name
of a tool. A body without the word need not be read. The answer "no" is certain, "maybe" is not.
"""

import re

#: What words are made of. Nothing else is searched, because JSON may write it as an escape.
_PLAIN = re.compile(r"[A-Za-z0-9 _.:-]+")
#: Such a character that is written as an escape all the same: then no search for bytes finds its word.
_ESCAPED = re.compile(rb"\\u00(?:[4-7]|20|2[de]|3[0-9a])", re.IGNORECASE)
#: Stands for any escaped character among the words.
_ESCAPE = b"\\u00"
#: A set of characters in a pattern.
_SET = re.compile(r"\[!?\]?[^\]]*\]")


def find_word(text: str) -> bytes:
    """The longest word that every body with this text contains; empty if there is none."""
    return max(_PLAIN.findall(text), key=len, default="").encode()


def find_pattern_word(pattern: str) -> bytes:
    """The same for a body with a text that a pattern matches."""
    return find_word(_SET.sub("*", pattern))


class BodySearch:
    """The words of one body.

    `new`: the part behind what is known of the body (`KnownBody`), which contains none of the words `absent`.
    `is_left_out`: the body is read in any case, so nothing is searched, and it may contain everything.
    """

    def __init__(
        self,
        body: bytes,
        new: bytes = b"",
        absent: frozenset[bytes] = frozenset(),
        *,
        is_left_out: bool = False,
    ) -> None:
        self._body = body
        self._new = new
        self._absent = absent
        self._is_left_out = is_left_out
        self._found: dict[bytes, bool] = {}

    def may_contain(self, *words: bytes) -> bool:
        """Whether the body may contain one of the words. They are as `find_word` returns them."""
        return self._is_left_out or any(map(self._has, words)) or self._has(_ESCAPE)

    @property
    def is_used(self) -> bool:
        return bool(self._found)

    @property
    def absent(self) -> frozenset[bytes]:
        """The words that were searched, and are not in the body."""
        return frozenset([word for word, is_found in self._found.items() if not is_found])

    def _has(self, word: bytes) -> bool:
        found = self._found.get(word)
        if found is None:
            part = self._new if word in self._absent else self._body
            # `rfind` takes a quarter of the time of `find` in a long text.
            found = part.rfind(word) >= 0
            if found and word is _ESCAPE:
                found = _ESCAPED.search(part) is not None
            self._found[word] = found
        return found
