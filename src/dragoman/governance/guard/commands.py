"""Finds the commands that a command line or an argument list runs, directly or through other programs.

It follows the text of `bash -c`, `eval` and here-documents, text that is printed into a shell, programs
behind `sudo`, `xargs` and `find -exec`, and variables that the same text sets. It does not understand code of
other languages; it only reads the strings in it as shell text. So a rule can miss a command.
"""

import re
from collections.abc import Iterator, Sequence

from dragoman.governance.guard.shell import EXPANSION, UNCLOSED, Command, Script, ShellReader

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
#: Programs that run the program in their arguments.
_RUNNERS = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "command",
        "exec",
        "builtin",
        "nohup",
        "time",
        "nice",
        "timeout",
        "xargs",
        "stdbuf",
        "setsid",
        "ionice",
        "flock",
        "watch",
        "parallel",
        "busybox",
        "strace",
    }
)
#: Options of `find` that a program follows.
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "for", "!", "{", "function"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
#: Programs whose option `-c` or `-e` takes code, and the strings in such code.
_INTERPRETER = re.compile(r"python[0-9.]*|perl|ruby|node|php|osascript")
_STRING = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")
_PRINTERS = (("echo",), ("printf",))

#: Levels of shells inside shells that are read.
MAX_SHELLS = 5
#: Characters of inner scripts that are read, beyond four times the whole text.
MIN_ROOM = 10_000
#: Characters that the values of variables may add: a long value can be named thousands of times.
MAX_REPLACED = 256 * 1024
#: Words of `sudo` and the like that can be the program.
MAX_RUNNER_WORDS = 20


def read_script(command: str | Sequence[str]) -> Script:
    """Read the commands of a shell text or an argument list, and of the shells that they start."""
    is_text = isinstance(command, str)
    script = ShellReader(command).read() if isinstance(command, str) else Script((Command(tuple(command)),))
    script = _replace_variables(script)
    commands, operators = list(script.commands), set(script.operators)
    level = [script]
    room = MIN_ROOM + 4 * (len(command) if is_text else sum(map(len, command)))
    for _ in range(MAX_SHELLS):
        texts = [text for each in level for text in find_inner_scripts(each)]
        room -= sum(map(len, texts))
        if room < 0:
            operators.add(UNCLOSED)
            break
        level = [_replace_variables(ShellReader(text).read()) for text in texts]
        commands += (inner for each in level for inner in each.commands)
        operators.update(*(each.operators for each in level))
    return Script(tuple(commands), frozenset(operators))


def _replace_variables(script: Script) -> Script:
    """Insert the values of variables that the script sets itself: `g=git; $g push` is `git push`."""
    if EXPANSION not in script.operators:
        return script
    values: dict[str, str] = {}
    for command in script.commands:
        for word in command.words:
            if found := _ASSIGNMENT.match(word):
                values[found[0].rstrip("+=")] = word[found.end() :]
    if not values:
        return script
    references = (
        values.get(found[1] or found[2], "")
        for command in script.commands
        for word in command.words
        for found in _VARIABLE.finditer(word)
    )
    if sum(map(len, references)) > MAX_REPLACED:
        return script._replace(operators=script.operators | {UNCLOSED})

    def replace(word: str) -> list[str]:
        new = _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), word)
        return [word] if new == word else new.split() or [""]

    commands = [
        command._replace(words=tuple(part for word in command.words for part in replace(word)))
        for command in script.commands
    ]
    return script._replace(commands=tuple(commands))


def find_inner_scripts(script: Script) -> Iterator[str]:
    """The texts in a script that a shell or another interpreter runs."""
    reads_input = False
    for command in script.commands:
        for program, words in find_programs(command.words):
            if program == "eval":
                yield " ".join(words)
            elif program in SHELLS:
                text = _find_option_text(words, "c")
                reads_input |= text is None
                yield from [] if text is None else [text]
                yield from (each.target for each in command.redirects if each.operator == "<<<")
            elif _INTERPRETER.fullmatch(program) and (code := _find_option_text(words, "ce")) is not None:
                # The code is no shell text, but its strings can be: os.system("git push --force").
                strings = [found[1] or found[2] or "" for found in _STRING.finditer(code)]
                yield from [*strings, " ".join(strings)]
    if reads_input:
        # A shell that reads its input: a here-document, or the output of a command before it in a pipe.
        yield from script.documents
        yield from (" ".join(each.words[1:]) for each in script.commands if each.words[:1] in _PRINTERS)


def _find_option_text(words: Sequence[str], letters: str) -> str | None:
    """The word after an option such as `-c`, alone or among others as in `-lc`; None if there is none."""
    for position, word in enumerate(words[:-1]):
        if word.startswith("-") and not word.startswith("--") and any(each in word for each in letters):
            return words[position + 1]
    return None


def find_programs(words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the program of a command with its words. After `sudo` and the like: each word that can be one."""
    start = 0
    while start < len(words) and (words[start] in _KEYWORDS or _ASSIGNMENT.match(words[start])):
        start += 1
    if start == len(words):
        return
    program = _strip_folder(words[start])
    yield program, words[start + 1 :]
    if program in _RUNNERS:
        for position in range(start + 1, min(len(words), start + MAX_RUNNER_WORDS)):
            yield _strip_folder(words[position]), words[position + 1 :]
    if program == "find":
        for position, word in enumerate(words[:-1]):
            if word in _FIND_RUNS:
                yield from find_programs(words[position + 1 :])


def _strip_folder(word: str) -> str:
    return word.rpartition("/")[2]
