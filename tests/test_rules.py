"""Every promise has a test, and every test that claims to keep a promise names one that was made."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.cases.case_file import RULE, case_files, read_case

TESTS = Path(__file__).resolve().parent
MANIFEST = TESTS / "rules.toml"
#: The kinds of numbers in each section. What is beyond the core need not have a test yet.
SECTIONS = {
    "requests": "R",
    "replies": "R",
    "contradictions": "C",
    "hazards": "H",
    "pitfalls": "P",
    "defects": "D",
    "governance": "G",
    "faults": "S",
    "translation": "F",
    "first_minutes": "M",
    "beyond": "RCHP",
}


def sections() -> dict[str, dict[str, str]]:
    """The rules of each section, by number. TOML itself refuses a number twice in one section."""
    return tomllib.loads(MANIFEST.read_text(encoding="utf-8"))


def manifest() -> dict[str, str]:
    """Every rule's number and statement."""
    return {number: statement for rules in sections().values() for number, statement in rules.items()}


def marked(path: Path) -> Iterator[str]:
    """The numbers in a file's `rule` markers, on functions, classes, parameters and the module itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.rule":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{path}:{node.lineno}: numbers are plain texts"
                yield str(argument.value)


def covered() -> dict[str, list[str]]:
    """Every number that a test or a case names, and where."""
    places: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for number in marked(path):
            places.setdefault(number, []).append(path.relative_to(TESTS).as_posix())
    for path in case_files():
        for number in read_case(path).rules:
            places.setdefault(number, []).append(path.relative_to(TESTS).as_posix())
    return places


def test_every_rule_of_the_core_has_a_test_or_a_case() -> None:
    assert sorted(set(manifest()) - set(sections()["beyond"]) - set(covered())) == []


def test_every_number_in_a_test_or_case_is_a_rule() -> None:
    assert {number: places for number, places in covered().items() if number not in manifest()} == {}


def test_every_rule_stands_once_and_in_its_section() -> None:
    numbers = [number for rules in sections().values() for number in rules]
    assert [number for number, count in Counter(numbers).items() if count > 1] == []
    assert [n for section, rules in sections().items() for n in rules if n[0] not in SECTIONS[section]] == []


def test_every_rule_has_a_legal_number_and_a_statement() -> None:
    for number, statement in manifest().items():
        assert RULE.fullmatch(number), number
        assert statement, number
        assert statement == statement.strip().rstrip("."), number


def test_every_requirement_and_contradiction_is_in_the_manifest() -> None:
    expected = {f"R{number}" for number in range(1, 137)} | {f"C{number}" for number in range(1, 27)}
    expected |= {f"S{number}" for number in range(1, 17)}
    expected |= {f"H{number}" for number in range(1, 87)} | {f"P{number}" for number in range(1, 76)}
    expected |= {f"D{number}" for number in range(1, 13)}
    expected |= {f"G{number}" for number in range(1, 14)}
    expected |= {f"F{number}" for number in range(1, 23)} | set(sections()["first_minutes"])
    assert sorted(expected ^ set(manifest())) == []
