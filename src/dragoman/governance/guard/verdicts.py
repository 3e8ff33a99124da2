"""Applies guard rules to a whole call and returns a verdict.

Rules apply in their order. A rule with the verdict `rewrite` changes the arguments that the rules after it
see. The first rule that allows, denies or asks decides. A call that no rule matches passes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from dragoman.governance.guard.commands import SHELLS, find_programs, read_script
from dragoman.governance.guard.patterns import Glob, Pattern
from dragoman.governance.guard.rules import GuardRule, VerdictKind
from dragoman.governance.guard.shell import (
    EXPANSION,
    REDIRECTIONS,
    UNCLOSED,
    Command,
    Script,
)
from dragoman.governance.guard.shell_fold import fold_command
from dragoman.hub.blocks import ToolCall
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object

#: Signs that a script does more than its words show: for `only`.
_HIDING = (UNCLOSED, EXPANSION, *sorted(REDIRECTIONS))
#: The member that holds the text of a free-text call while the rules apply.
_WHOLE = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`rules`: names of the rules that matched, the deciding one last. `arguments`: what the call gets."""

    kind: VerdictKind
    rules: tuple[str, ...] = ()
    reason: str = ""
    arguments: str = ""

    @property
    def passes(self) -> bool:
        return self.kind in ("allow", "rewrite")


UNREADABLE = Verdict(
    kind="deny", rules=("unreadable",), reason="its arguments are no JSON, so they cannot be judged"
)
TOO_LONG = Verdict(kind="deny", rules=("too-long",), reason="its arguments are too long to be judged")

#: Characters of the command lines in one call. Linux accepts no longer argument, so no shell runs one.
MAX_SCRIPT = 128 * 1024
#: Commands in one call. Every rule looks at every command.
MAX_COMMANDS = 2000


class ScriptTooLongError(Exception):
    """The command lines of a call are too long to be read on the event loop."""


class GuardRules:
    """The rules of one route."""

    def __init__(self, rules: Sequence[GuardRule]) -> None:
        self._rules = [_compile_rule(rule) for rule in rules]

    def covers(self, tool: str) -> bool:
        """Whether any rule names this tool."""
        return any(rule.covers(tool) for rule in self._rules)

    def decide(self, call: ToolCall, arguments: str, schema: dict[str, object] | None) -> Verdict | None:
        """The verdict on a call with these whole arguments; None if no rule matches."""
        rules = [rule for rule in self._rules if rule.covers(call.name)]
        guarded = _GuardedCall(call, arguments, schema)
        forbids = any(rule.rule.verdict in ("deny", "ask") for rule in rules)
        if not guarded.is_readable:
            return UNREADABLE if forbids else None
        try:
            return self._apply(rules, guarded)
        except ScriptTooLongError:
            return TOO_LONG if forbids else None

    def _apply(self, rules: Sequence["_CompiledRule"], guarded: "_GuardedCall") -> Verdict | None:
        rewrote: list[GuardRule] = []
        for each in rules:
            rule = each.rule
            if rule.verdict == "rewrite":
                rewrote += [rule] if guarded.rewrite(each) else []
            elif guarded.matches(each):
                names = tuple(matched.name for matched in (*rewrote, rule))
                kind, reason = rule.verdict, rule.reason
                return Verdict(kind=kind, rules=names, reason=reason, arguments=guarded.arguments)
        if not rewrote:
            return None
        names = tuple(rule.name for rule in rewrote)
        return Verdict(kind="rewrite", rules=names, reason=rewrote[-1].reason, arguments=guarded.arguments)


class _Slot:
    """A value inside the arguments, with its container, so that a rule can replace it."""

    __slots__ = ("container", "key", "value")

    def __init__(self, container: dict[str, object] | list[object], key: str | int, value: object) -> None:
        self.container = container
        self.key = key
        self.value = value

    def replace(self, value: object) -> None:
        match self.container, self.key:
            case dict() as members, str() as name:
                members[name] = value
            case list() as items, int() as position:
                items[position] = value


class _CompiledRule:
    """A rule with its globs and its pattern compiled."""

    def __init__(self, rule: GuardRule) -> None:
        self.rule = rule
        self._tools = [Glob(name) for name in rule.tools]
        self._paths = [path.split(".") for path in rule.paths]
        self._pattern = Pattern(rule.pattern) if rule.pattern else None
        self._command = _compile_words(rule.command)
        self._only = [_compile_words(command.split()) for command in rule.only]

    @property
    def is_unconditional(self) -> bool:
        """Whether the rule matches every call of its tools."""
        rule = self.rule
        return not (rule.paths or rule.pattern or rule.command or rule.operators or rule.only)

    def covers(self, tool: str) -> bool:
        return any(glob.matches(tool) for glob in self._tools)

    def find_slots(self, document: dict[str, object], *, is_text: bool) -> Iterator[_Slot]:
        """The values that this rule checks; a free-text call has only one."""
        if is_text or not self._paths:
            # A list can be a command as a whole. For a pattern only the texts in it count.
            yield from _find_leaves(document, with_lists=self._pattern is None)
            return
        for path in self._paths:
            yield from _find_at(document, path)

    def matches(self, value: object, scripts: "_ScriptCache") -> bool:
        rule = self.rule
        if self._pattern is not None:
            return any(self._pattern.is_in(text) for text in _find_texts(value))
        if rule.only:
            script = scripts.read(value)
            return script is None or not self._permits(script)
        if rule.command or rule.operators:
            script = scripts.read(value)
            if script is None or rule.operators:
                return script is not None and script.has_operator(rule.operators)
            return any(self._matches_command(*program) for program in scripts.find_programs(script))
        return True

    def _permits(self, script: Script) -> bool:
        """Whether a script runs nothing but the commands of `only`, and its text shows all that it runs."""
        if script.has_operator(_HIDING) or not script.commands:
            return False
        return all(
            any(_begins_with(command, wanted) for wanted in self._only) or _is_shell(command)
            for command in script.commands
        )

    def _matches_command(self, program: str, words: Sequence[str]) -> bool:
        """Whether the program and all words of the rule occur in this order, with any words between them."""
        first, *others = self._command
        if not any(glob.matches(program) for glob in first):
            return False
        rest = iter(words)
        return all(any(any(glob.matches(word) for glob in wanted) for word in rest) for wanted in others)

    def rewrite(self, slot: _Slot, *, wants_list: bool) -> bool:
        """Replace the value of a slot; False if it stays as it is."""
        new: object = None
        if self.rule.fold:
            new = fold_command(slot.value, wants_list=wants_list)
        elif self.rule.replacement is not None and isinstance(slot.value, str):
            new = self.rule.replacement.replace("{value}", slot.value)
        if new is None or new == slot.value:
            return False
        slot.replace(new)
        return True


def _compile_words(words: Sequence[str]) -> list[list[Glob]]:
    return [[Glob(each) for each in word.split("|")] for word in words]


def _begins_with(command: Command, wanted: Sequence[Sequence[Glob]]) -> bool:
    """Whether a command begins with these words, the program by its plain name."""
    pairs = zip(command.words, wanted, strict=False)
    return len(command.words) >= len(wanted) and all(
        any(glob.matches(word) for glob in globs) for word, globs in pairs
    )


def _is_shell(command: Command) -> bool:
    """Whether a command is a shell whose text is part of the script."""
    words = command.words
    return len(words) == 3 and words[0] in SHELLS and words[1] in ("-c", "-lc")


@lru_cache(maxsize=1024)
def _compile_rule(rule: GuardRule) -> _CompiledRule:
    return _CompiledRule(rule)


class _ScriptCache:
    """The scripts of one call, each read once for all rules."""

    def __init__(self) -> None:
        self._scripts: dict[str | tuple[str, ...], Script] = {}
        self._programs: dict[int, list[tuple[str, Sequence[str]]]] = {}
        self._size = 0
        self._commands = 0

    def read(self, value: object) -> Script | None:
        """The commands of a command line or an argument list; None for any other value."""
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            value = tuple(value)
        if not isinstance(value, str | tuple):
            return None
        if value not in self._scripts:
            self._size += len(value) if isinstance(value, str) else sum(map(len, value))
            if self._size > MAX_SCRIPT:
                raise ScriptTooLongError
            self._scripts[value] = script = read_script(value)
            self._commands += len(script.commands)
            if self._commands > MAX_COMMANDS:
                raise ScriptTooLongError
        return self._scripts[value]

    def find_programs(self, script: Script) -> list[tuple[str, Sequence[str]]]:
        """The programs of all commands of a script that was read here, with their words."""
        found = self._programs.get(id(script))
        if found is None:
            found = [program for command in script.commands for program in find_programs(command.words)]
            self._programs[id(script)] = found
        return found


class _GuardedCall:
    """The state of one tool call while the guard rules are applied."""

    def __init__(self, call: ToolCall, arguments: str, schema: dict[str, object] | None) -> None:
        self._is_text = call.kind == "custom"
        self._raw = arguments
        self._document: dict[str, object] | None = (
            {_WHOLE: arguments} if self._is_text else parse_object(arguments)
        )
        self._schema = schema
        self._scripts = _ScriptCache()
        self._is_changed = False

    @property
    def is_readable(self) -> bool:
        return self._document is not None

    @property
    def arguments(self) -> str:
        """The arguments after all rewrites; byte for byte the original if no rule changed them."""
        if not self._is_changed or self._document is None:
            return self._raw
        if self._is_text:
            return str(self._document[_WHOLE])
        try:
            return encode(self._document).decode()
        except DragomanError:
            return self._raw

    def matches(self, rule: _CompiledRule) -> bool:
        if rule.is_unconditional:
            return True
        slots = list(self._find_slots(rule))
        # An allow-list denies a call whose command it cannot find.
        return (not slots and bool(rule.rule.only)) or any(
            rule.matches(slot.value, self._scripts) for slot in slots
        )

    def rewrite(self, rule: _CompiledRule) -> bool:
        """Apply a `rewrite` rule. Returns whether it changed anything."""
        changed = False
        for slot in list(self._find_slots(rule)):
            if rule.matches(slot.value, self._scripts):
                changed |= rule.rewrite(slot, wants_list=_wants_list(self._schema, slot.key))
        self._is_changed |= changed
        return changed

    def _find_slots(self, rule: _CompiledRule) -> Iterator[_Slot]:
        return rule.find_slots(self._document or {}, is_text=self._is_text)


def _wants_list(schema: dict[str, object] | None, key: str | int) -> bool:
    properties = (schema or {}).get("properties")
    wanted = properties.get(key) if isinstance(properties, dict) else None
    return isinstance(wanted, dict) and wanted.get("type") == "array"


def _find_at(document: dict[str, object], path: Sequence[str]) -> Iterator[_Slot]:
    """The values at a path; `*` is any member or item."""
    level: list[object] = [document]
    for depth, name in enumerate(path):
        found = [slot for container in level for slot in _find_named(container, name)]
        if depth == len(path) - 1:
            yield from found
        level = [slot.value for slot in found]


def _find_named(container: object, name: str) -> Iterator[_Slot]:
    if isinstance(container, dict):
        for key in container if name == "*" else (name,):
            if key in container:
                yield _Slot(container, key, container[key])
    elif isinstance(container, list):
        for position, value in enumerate(container):
            if name in ("*", str(position)):
                yield _Slot(container, position, value)


def _find_leaves(document: dict[str, object], *, with_lists: bool) -> Iterator[_Slot]:
    """All values at any depth that contain no others; with `with_lists` also the lists."""
    level: list[dict[str, object] | list[object]] = [document]
    while level:
        for slot in _find_named(level.pop(), "*"):
            if isinstance(slot.value, dict | list):
                level.append(slot.value)
            if not isinstance(slot.value, dict | list) or (with_lists and isinstance(slot.value, list)):
                yield slot


def _find_texts(value: object) -> Iterator[str]:
    """All texts in a value; numbers, booleans and null as JSON writes them."""
    for slot in _find_leaves({_WHOLE: value}, with_lists=False):
        yield slot.value if isinstance(slot.value, str) else encode(slot.value).decode()
