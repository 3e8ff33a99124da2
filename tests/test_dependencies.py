"""Every import is declared: a plain `pip install` of the wheel brings every package that the code imports."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
REQUIREMENTS = ROOT / "requirements"
#: Modules whose name is not that of their distribution, for an environment without the distribution.
KNOWN_DISTRIBUTIONS = {"yaml": {"pyyaml"}, "re2": {"google-re2"}, "opentelemetry": {"opentelemetry-api"}}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MODULE = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")


class Import(NamedTuple):
    """One import of a third-party package. `is_late`: it does not run when its module is imported."""

    package: str
    file: str
    is_late: bool


@cache
def installed_packages() -> Mapping[str, list[str]]:
    return packages_distributions()


def normalize(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def names_in(requirements: list[str]) -> set[str]:
    return {normalize(found[0]) for line in requirements if (found := _NAME.match(line))}


def project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def runtime_names() -> set[str]:
    return names_in(project()["dependencies"])


def extra_names() -> set[str]:
    return {name for lines in project()["optional-dependencies"].values() for name in names_in(lines)}


def imports_in(text: str, file: str) -> Iterator[Import]:
    """The third-party imports of one file: statements, and module names beside `import_module`."""
    tree = ast.parse(text)
    late = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node)
        for inner in ast.walk(node)
    }
    loads_by_name = "import_module" in text
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        elif loads_by_name and isinstance(node, ast.Constant) and isinstance(node.value, str):
            modules = [node.value] if _is_third_party_module(node.value) else []
        for module in modules:
            package = module.partition(".")[0]
            if package not in sys.stdlib_module_names and package != "dragoman":
                yield Import(package, file, node in late)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_third_party_module(text: str) -> bool:
    package = text.partition(".")[0]
    return bool(_MODULE.fullmatch(text)) and (package in installed_packages() or package in extra_modules())


@cache
def extra_modules() -> set[str]:
    """Top-level modules of the extras, also where the extras are not installed."""
    return {name.replace("-", "_") for name in extra_names()} | set(KNOWN_DISTRIBUTIONS)


def distributions_of(package: str) -> set[str]:
    """The distributions that provide a top-level package: from the environment, else from its name."""
    installed = {normalize(name) for name in installed_packages().get(package, ())}
    return installed | KNOWN_DISTRIBUTIONS.get(package, {normalize(package)})


def undeclared(imports: Iterable[Import], runtime: set[str], extras: set[str]) -> list[str]:
    """One line for each import that no dependency provides at the time when it runs."""
    return sorted(
        f"{found.file} imports {found.package}"
        for found in set(imports)
        if not distributions_of(found.package) & (runtime | extras if found.is_late else runtime)
    )


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(
        found
        for path in sorted(SOURCE.rglob("*.py"))
        for found in imports_in(path.read_text("utf-8"), str(path.relative_to(SOURCE)))
    )


def test_every_import_is_declared_in_the_project_file() -> None:
    assert undeclared(all_imports(), runtime_names(), extra_names()) == []


def test_the_imports_of_the_extras_are_found_although_some_are_loaded_by_name() -> None:
    late = {found.package for found in all_imports() if found.is_late}
    assert {"claude_agent_sdk", "mcp", "mcp_types", "opentelemetry", "yaml"} <= late


@pytest.mark.parametrize(
    "name", ["aiohappyeyeballs", "httptools", "msgspec", "zstandard", "click", "uvicorn"]
)
def test_a_missing_declaration_is_found(name: str) -> None:
    lines = undeclared(all_imports(), runtime_names() - {name}, extra_names())
    assert lines
    assert all(line.endswith(f" imports {name}") for line in lines)


def test_an_extra_is_not_enough_for_an_import_at_module_level() -> None:
    at_top = list(imports_in("import yaml\n", "a.py"))
    in_function = list(imports_in("def read():\n    import yaml\n", "a.py"))
    assert undeclared(at_top, set(), {"pyyaml"}) == ["a.py imports yaml"]
    assert undeclared(in_function, set(), {"pyyaml"}) == []


def pins(lock: str) -> dict[str, str]:
    text = (REQUIREMENTS / lock).read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def test_the_runtime_lock_has_every_dependency_at_the_versions_of_the_development_lock() -> None:
    run, dev = pins("run.txt"), pins("dev.txt")
    assert runtime_names() <= run.keys()
    assert {name: dev.get(name) for name in run} == run
    assert len(run) < len(dev) / 3


@pytest.mark.parametrize("lock", ["run.txt", "dev.txt", "e2e.txt", "node.txt"])
def test_a_lock_has_hashes_and_names_no_address(lock: str) -> None:
    text = (REQUIREMENTS / lock).read_text("utf-8")
    assert text.count("==") <= text.count("--hash=sha256:")
    assert "://" not in text
    assert "index-url" not in text
