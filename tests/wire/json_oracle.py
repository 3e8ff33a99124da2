"""A slow, separate reading of strict JSON, to judge the fast one by."""

WHITE = " \t\n\r"
DIGITS = "0123456789"
HEX = DIGITS + "abcdefABCDEF"
DEEPEST = 200


class Deviated(Exception):
    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class RanOut(Exception):
    """The text ended while everything was still in order."""


class Oracle:
    """Descends through one text and stops at the first character that no JSON could have there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def peek(self) -> str:
        if self.place == len(self.text):
            raise RanOut
        return self.text[self.place]

    def take(self, allowed: str) -> str:
        character = self.peek()
        if character not in allowed:
            raise Deviated(self.place)
        self.place += 1
        return character

    def white(self) -> None:
        while self.peek() in WHITE:
            self.place += 1

    def value(self, depth: int) -> None:
        self.white()
        first = self.peek()
        if first in "[{":
            if depth == DEEPEST:
                raise Deviated(self.place)
            self.place += 1
            self.container(first, depth + 1)
        elif first == '"':
            self.string()
        elif first in "-" + DIGITS:
            self.number()
        else:
            for word in ("true", "false", "null"):
                if first == word[0]:
                    for letter in word:
                        self.take(letter)
                    return
            raise Deviated(self.place)

    def container(self, opening: str, depth: int) -> None:
        closing = "]" if opening == "[" else "}"
        self.white()
        if self.peek() == closing:
            self.place += 1
            return
        while True:
            self.white()
            if opening == "{":
                self.string()
                self.white()
                self.take(":")
            self.value(depth)
            self.white()
            if self.take("," + closing) == closing:
                return

    def string(self) -> None:
        self.take('"')
        while True:
            character = self.peek()
            if character < " " or "\ud800" <= character <= "\udfff":
                raise Deviated(self.place)
            self.place += 1
            if character == '"':
                return
            if character == "\\" and self.take('"\\/bfnrtu') == "u":
                self.unicode_escape()

    def unicode_escape(self) -> None:
        if self.take(HEX) not in "dD":
            for _ in range(3):
                self.take(HEX)
            return
        second = self.take("01234567" + "89abAB")
        self.take(HEX)
        self.take(HEX)
        if second in "89abAB":
            for allowed in ("\\", "u", "dD", "cdefCDEF", HEX, HEX):
                self.take(allowed)

    def number(self) -> None:
        if self.peek() == "-":
            self.place += 1
        if self.take(DIGITS) != "0":
            self.digits()
        if self.peek() == ".":
            self.place += 1
            self.take(DIGITS)
            self.digits()
        if self.peek() in "eE":
            self.place += 1
            if self.peek() in "+-":
                self.place += 1
            self.take(DIGITS)
            self.digits()

    def digits(self) -> None:
        while self.peek() in DIGITS:
            self.place += 1


def longest_beginning(text: str) -> int:
    """How many characters of the text can be the beginning of one JSON value."""
    oracle = Oracle(text)
    try:
        oracle.value(0)
        oracle.white()
    except RanOut:
        return len(text)
    except Deviated as deviated:
        return deviated.place
    return oracle.place
