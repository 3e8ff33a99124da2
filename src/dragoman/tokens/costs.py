"""What pieces of text cost in tokens, for each family of tokenizers.

Tokenizers cut where the kind of character changes, and cut long words again. So a text is reduced to the
kinds of its characters, and the cost of a text is the sum over the patterns below of how often each
occurs (without overlap) times its cost. The costs were fitted to the true counts of about five hundred
texts; `docs/token-counts.md` tells how well they do.
"""

from typing import Literal, get_args

Family = Literal["gpt", "open", "gemini", "claude-3", "claude"]
FAMILIES: tuple[Family, ...] = get_args(Family)

#: The kinds of ASCII characters, each by one of its kind. What is not listed is an `x`.
KINDS = {
    "a": "abcdefghijklmnopqrstuvwxyz",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0": "0123456789",
    " ": " ",
    "\t": "\t",
    "\n": "\n",
    "\r": "\r",
    "_": "_",
    '"': "\"'`",
    "(": "()[]{}<>",
    ".": ".,;:!?",
    "-": "-=/*#+|\\&%$@^~",
}

#: Costs in the order of `FAMILIES`.
PATTERNS: dict[str, tuple[float, float, float, float, float]] = {
    # Words: after a blank, of which the long ones cost more, and after something else.
    " a": (0.99, 0.97, 0.92, 0.91, 1.00),
    "aaaaa": (0.02, 0.08, 0.13, 0.28, 0.91),
    "aaaaaaaaaaaa": (0.86, 0.68, 0.15, 0.54, 2.11),
    "\na": (1.33, 1.23, 0.83, 0.82, 1.13),
    "_a": (0.55, 0.68, 0.81, 0.40, 0.86),
    '"a': (1.17, 1.23, 1.48, 1.28, 1.27),
    "(a": (2.09, 2.03, 1.89, 2.28, 2.38),
    ".a": (0.56, 0.74, 1.64, 1.37, 1.71),
    "-a": (1.47, 1.52, 1.70, 1.85, 2.08),
    # Capitals: alone, at the beginning of a word, in the middle of one, in a row.
    "A": (0.22, 0.31, 0.27, 0.37, 0.63),
    "Aa": (0.71, 0.57, 0.60, 0.38, 0.59),
    "aA": (0.14, 0.21, 0.16, 0.97, 1.52),
    "-A": (1.56, 1.61, 1.41, 1.65, 2.05),
    "AAA": (0.22, 0.00, 0.00, 0.00, 0.66),
    # Digits: some tokenizers take three at a time, others one.
    "0": (0.54, 0.85, 1.12, 0.47, 0.49),
    " 0": (1.95, 1.48, 1.07, 2.23, 2.27),
    "a0": (0.97, 0.67, 0.60, 1.19, 1.42),
    "A0": (1.95, 1.72, 1.83, 2.96, 1.02),
    # Punctuation.
    '"': (0.21, 0.24, 0.05, 0.17, 0.37),
    "(": (0.23, 0.22, 0.23, 0.29, 0.28),
    ".": (0.60, 0.51, 0.53, 0.73, 0.86),
    "-": (0.30, 0.26, 0.26, 0.30, 0.48),
    "_": (0.42, 0.49, 0.95, 1.07, 1.00),
    "x": (0.14, 0.22, 0.59, 0.83, 1.37),
    " -": (0.76, 0.86, 1.17, 1.05, 1.19),
    ' "': (0.80, 0.73, 0.92, 0.89, 0.62),
    ". ": (0.32, 0.42, 0.64, 0.26, 0.47),
    "-(": (1.70, 1.47, 0.72, 0.50, 1.13),
    # Blanks.
    "\n": (0.87, 0.92, 1.35, 1.33, 1.12),
    "\t": (0.93, 0.96, 1.08, 1.34, 1.20),
    "  ": (0.08, 0.07, 0.10, 0.12, 0.08),
}

#: Characters beyond ASCII: a regular expression's class for each script, and the cost of one character.
SCRIPTS: dict[str, tuple[float, float, float, float, float]] = {
    # Latin letters with marks: they stand in words that are cut more often than English ones.
    "\u00c0-\u024f\u1e00-\u1eff": (1.95, 2.72, 1.26, 2.28, 2.44),
    # Cyrillic.
    "\u0400-\u052f": (0.30, 0.38, 0.28, 0.43, 0.43),
    # Greek, Armenian, Hebrew, Arabic.
    "\u0370-\u03ff\u0530-\u08ff": (0.42, 0.60, 0.44, 0.76, 0.76),
    # The scripts of India and of south-east Asia.
    "\u0900-\u1dff": (0.39, 0.83, 0.34, 1.09, 1.09),
    # Kana, Chinese characters, Hangul.
    "\u3040-\u30ff": (0.81, 0.81, 0.57, 0.75, 0.75),
    "\u3100-\u9fff\uf900-\ufaff": (0.78, 0.57, 0.64, 1.10, 1.09),
    "\uac00-\ud7af": (0.69, 0.83, 0.68, 1.50, 1.50),
    # Punctuation of the world, lines of tables and trees, other symbols, emoji.
    "\u0080-\u00bf\u2000-\u20cf\u3000-\u303f\uff00-\uffef": (0.39, 0.71, 0.33, 0.69, 0.52),
    "\u2500-\u257f": (0.95, 0.88, 0.70, 1.02, 1.02),
    "\u20d0-\u24ff\u2580-\u2fff": (1.29, 1.30, 1.15, 3.06, 3.06),
    "\U00010000-\U0010ffff": (2.00, 2.50, 1.67, 4.00, 4.00),
}
