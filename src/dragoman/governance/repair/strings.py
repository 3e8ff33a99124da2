"""Strings as models write them, and as JSON wants them.

What a string means is kept to the letter: control characters are escaped, and a backslash that begins no
escape of JSON stands for itself, because in paths, patterns and commands that is what it was meant to be.
"""

import re

from dragoman.governance.repair.steps import CONTROL_CHARACTERS, ESCAPES

_HEX = "[0-9a-fA-F]"
_PAIR = rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = rf'(?:\\["\\/bfnrt]|\\u(?![dD][89a-fA-F]){_HEX}{{4}}|{_PAIR})'
_PLAIN = r'[^"\\\x00-\x1f]*+'

#: A string that needs nothing. The repetitions give nothing back: they remember no places to return to.
STRICT_STRING = rf'"{_PLAIN}(?:{_ESCAPE}{_PLAIN})*+"'

#: The characters that end a string, by the one that begins it.
CLOSING_QUOTES: dict[str, str] = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\uff02": "\uff02",
    **dict.fromkeys("\u201c\u201d\u201e", "\u201c\u201d"),
    **dict.fromkeys("\u2018\u2019\u201a", "\u2018\u2019"),
}
QUOTES_CLASS = "".join(CLOSING_QUOTES)
TRIPLE_QUOTES = ('"""', "'''")

#: The inside of a string up to a quote that could end it, by its first quote.
BODIES: dict[str, re.Pattern[str]] = {
    opener: re.compile(rf"[^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+", re.DOTALL)
    for opener, closers in CLOSING_QUOTES.items()
}

_ATTENTION = re.compile(
    rf'(?P<whole>{_ESCAPE})|(?P<half>\\u{_HEX}{{4}})|\\(?P<quote>[{QUOTES_CLASS}]?)|["\x00-\x1f]'
)
_SPELLINGS = {
    '"': '\\"',
    **{chr(code): f"\\u{code:04x}" for code in range(0x20)},
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def body_end(text: str, position: int, opener: str) -> int:
    """Where the string whose inside begins here first meets a quote of its own, or the end of the text."""
    found = BODIES[opener].match(text, position)
    stop = found.end() if found else position
    # A lone backslash at the very end escapes nothing.
    return len(text) if text[stop : stop + 1] == "\\" else stop


def written(body: str, opener: str, steps: set[str]) -> str:
    """The JSON string for what stands between two quotes; adds the liberties it took."""
    closers = CLOSING_QUOTES[opener]

    def spelled(found: re.Match[str]) -> str:
        if found["whole"]:
            return found[0]
        if found["half"]:
            steps.add(ESCAPES)
            return "\\ufffd"
        quote = found["quote"]
        if quote is None:
            if found[0] != '"':
                steps.add(CONTROL_CHARACTERS)
            return _SPELLINGS[found[0]]
        if quote and quote in closers:
            return quote
        steps.add(ESCAPES)
        return "\\\\" + quote

    return f'"{_ATTENTION.sub(spelled, body)}"'
