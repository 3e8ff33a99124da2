"""Judges whole calls by guard rules: which rule speaks, what it says, and the arguments as rewritten.

Rules are asked in their order. One that rewrites changes what the next ones see; the first that allows,
denies or asks has the last word. A call that no rule speaks of passes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from dragoman.governance.guard.patterns import Glob, Pattern
from dragoman.governance.guard.rules import GuardRule, VerdictKind
from dragoman.governance.guard.shell import Script, programs_of, read_script
from dragoman.governance.guard.shell_fold import folded
from dragoman.hub.content import ToolCall
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object

#: Where the whole of a free-text call stands while it is judged.
_WHOLE = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`rules` are those that spoke, the decisive one last; `arguments` is what the call shall carry."""

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


class _Place:
    """A value inside the arguments, and where to put another one instead."""

    __slots__ = ("container", "key", "value")

    def __init__(self, container: dict[str, object] | list[object], key: str | int, value: object) -> None:
        self.container = container
        self.key = key
        self.value = value

    def put(self, value: object) -> None:
        match self.container, self.key:
            case dict() as members, str() as name:
                members[name] = value
            case list() as items, int() as position:
                items[position] = value


class _Rule:
    """A rule made ready."""

    def __init__(self, rule: GuardRule) -> None:
        self.rule = rule
        self._tools = [Glob(name) for name in rule.tools]
        self._paths = [path.split(".") for path in rule.paths]
        self._pattern = Pattern(rule.pattern) if rule.pattern else None
        self._command = [[Glob(each) for each in word.split("|")] for word in rule.command]

    @property
    def applies_to_all(self) -> bool:
        """Whether it looks for nothing in particular."""
        rule = self.rule
        return not (rule.paths or rule.pattern or rule.command or rule.operators)

    def is_about(self, tool: str) -> bool:
        return any(glob.matches(tool) for glob in self._tools)

    def places(self, document: dict[str, object], *, is_text: bool) -> Iterator[_Place]:
        """Where this rule looks; free text has only one place."""
        if is_text or not self._paths:
            # A list may be a command as a whole; otherwise only what is in it counts.
            yield from _members(document, lists=self._pattern is None)
            return
        for path in self._paths:
            yield from _at(document, path)

    def speaks_of(self, value: object, scripts: "Scripts") -> bool:
        rule = self.rule
        if self._pattern is not None:
            return any(self._pattern.found_in(text) for text in _texts(value))
        if rule.command or rule.operators:
            script = scripts.script(value)
            return script is not None and self._finds(script)
        return True

    def _finds(self, script: Script) -> bool:
        if self.rule.operators:
            return script.holds_operator(self.rule.operators)
        return any(
            self._runs(program, words) for c in script.commands for program, words in programs_of(c.words)
        )

    def _runs(self, program: str, words: Sequence[str]) -> bool:
        """Whether the program is run with all the words in this order, whatever stands between them."""
        first, *others = self._command
        if not any(glob.matches(program) for glob in first):
            return False
        rest = iter(words)
        return all(any(any(glob.matches(word) for glob in wanted) for word in rest) for wanted in others)

    def rewritten(self, place: _Place, *, wants_list: bool) -> bool:
        """Put the new value in its place; False if there is nothing to change."""
        new: object = None
        if self.rule.fold:
            new = folded(place.value, wants_list=wants_list)
        elif self.rule.replacement is not None and isinstance(place.value, str):
            new = self.rule.replacement.replace("{value}", place.value)
        if new is None or new == place.value:
            return False
        place.put(new)
        return True


class Scripts:
    """The commands of one call, each read once, however many rules look at it."""

    def __init__(self) -> None:
        self._read: dict[str | tuple[str, ...], Script] = {}

    def script(self, value: object) -> Script | None:
        """The commands in a command line or an argument list; None if it is neither."""
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            value = tuple(value)
        if not isinstance(value, str | tuple):
            return None
        if value not in self._read:
            self._read[value] = read_script(value)
        return self._read[value]


@lru_cache(maxsize=1024)
def _ready(rule: GuardRule) -> _Rule:
    return _Rule(rule)


class GuardRules:
    """The rules of one route."""

    def __init__(self, rules: Sequence[GuardRule]) -> None:
        self._rules = [_ready(rule) for rule in rules]

    def guards(self, tool: str) -> bool:
        return any(rule.is_about(tool) for rule in self._rules)

    def verdict(self, call: ToolCall, arguments: str, schema: dict[str, object] | None) -> Verdict | None:
        """What the rules say about a whole call; None if none of them speaks of it."""
        rules = [rule for rule in self._rules if rule.is_about(call.name)]
        case = _Case(call, arguments, schema)
        if not case.is_readable:
            forbidding = any(rule.rule.verdict in ("deny", "ask") for rule in rules)
            return UNREADABLE if forbidding else None
        rewrote: list[GuardRule] = []
        for each in rules:
            rule = each.rule
            if rule.verdict == "rewrite":
                rewrote += [rule] if case.rewrite(each) else []
            elif case.is_case_of(each):
                names = tuple(spoke.name for spoke in (*rewrote, rule))
                return Verdict(kind=rule.verdict, rules=names, reason=rule.reason, arguments=case.arguments)
        if not rewrote:
            return None
        names = tuple(spoke.name for spoke in rewrote)
        return Verdict(kind="rewrite", rules=names, reason=rewrote[-1].reason, arguments=case.arguments)


class _Case:
    """One call under judgement."""

    def __init__(self, call: ToolCall, arguments: str, schema: dict[str, object] | None) -> None:
        self._is_text = call.kind == "custom"
        self._raw = arguments
        self._document: dict[str, object] | None = (
            {_WHOLE: arguments} if self._is_text else parse_object(arguments)
        )
        self._schema = schema
        self._scripts = Scripts()
        self._is_changed = False

    @property
    def is_readable(self) -> bool:
        return self._document is not None

    @property
    def arguments(self) -> str:
        """The arguments as they are by now; as they came, if no rule changed them."""
        if not self._is_changed or self._document is None:
            return self._raw
        if self._is_text:
            return str(self._document[_WHOLE])
        try:
            return encode(self._document).decode()
        except DragomanError:
            return self._raw

    def is_case_of(self, rule: _Rule) -> bool:
        if rule.applies_to_all:
            return True
        return any(rule.speaks_of(place.value, self._scripts) for place in self._places(rule))

    def rewrite(self, rule: _Rule) -> bool:
        """Whether the rule changed anything."""
        changed = False
        for place in list(self._places(rule)):
            if rule.speaks_of(place.value, self._scripts):
                changed |= rule.rewritten(place, wants_list=_wants_list(self._schema, place.key))
        self._is_changed |= changed
        return changed

    def _places(self, rule: _Rule) -> Iterator[_Place]:
        return rule.places(self._document or {}, is_text=self._is_text)


def _wants_list(schema: dict[str, object] | None, key: str | int) -> bool:
    properties = (schema or {}).get("properties")
    wanted = properties.get(key) if isinstance(properties, dict) else None
    return isinstance(wanted, dict) and wanted.get("type") == "array"


def _at(document: dict[str, object], path: Sequence[str]) -> Iterator[_Place]:
    """The values at a path; `*` is any member or item."""
    level: list[object] = [document]
    for depth, name in enumerate(path):
        found = [place for container in level for place in _named(container, name)]
        if depth == len(path) - 1:
            yield from found
        level = [place.value for place in found]


def _named(container: object, name: str) -> Iterator[_Place]:
    if isinstance(container, dict):
        for key in container if name == "*" else (name,):
            if key in container:
                yield _Place(container, key, container[key])
    elif isinstance(container, list):
        for position, value in enumerate(container):
            if name in ("*", str(position)):
                yield _Place(container, position, value)


def _members(document: dict[str, object], *, lists: bool) -> Iterator[_Place]:
    """Every value that holds no others, wherever it stands; if wanted, lists as well."""
    level: list[dict[str, object] | list[object]] = [document]
    while level:
        for place in _named(level.pop(), "*"):
            if isinstance(place.value, dict | list):
                level.append(place.value)
            if not isinstance(place.value, dict | list) or (lists and isinstance(place.value, list)):
                yield place


def _texts(value: object) -> Iterator[str]:
    """Every text in a value; numbers and their like as JSON spells them."""
    for place in _members({_WHOLE: value}, lists=False):
        yield place.value if isinstance(place.value, str) else encode(place.value).decode()
