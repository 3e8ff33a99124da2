"""The rules of the code's structure that no linter knows: what may name a dialect, and what a name means.

Every exception stands in a table with its reason. An exception that nothing needs any more fails too.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from dragoman.cli.main import COMMANDS
from dragoman.dialects.registry import DIALECTS
from dragoman.hub.events import ReplyEvent
from dragoman.providers.local_programs import LOCAL_PROGRAMS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "dragoman"
TOY = ROOT / "tests" / "toy_dialect"

#: The packages that hold what is known about each API.
KNOWING_PACKAGES = ("dialects/", "config/", "providers/")

#: Files outside these packages that contain the name of a dialect.
MAY_NAME_A_DIALECT = {
    "cli/agents.py": "the agent Gemini CLI has the name of a dialect",
    "doctor/replies.py": "the doctor is a client, and its requests have one dialect",
    "importing/vendors.py": "translates the vendor names of other gateways' configurations",
    "tokens/tokenizers.py": "a tokenizer has the name of a dialect",
}
#: Files outside `dialects` that import a module of one dialect.
MAY_IMPORT_A_DIALECT = {
    "responses/": "the state of the Responses API, which no other API has",
}
#: Files outside `wire` and `dialects` that parse server-sent events: none.
MAY_PARSE_EVENTS: dict[str, str] = {}

#: What describes the kinds of upstream: their packages, and the table of local programs.
KNOWING_UPSTREAMS = ("upstream/", "providers/local_programs.py")
#: Files outside these that contain the name of a kind of upstream.
MAY_NAME_AN_UPSTREAM = {
    "agents/": "the agents that send requests, one of which is Claude Code",
    "config/find.py": "the configuration without a file has the embedded model",
    "importing/ccr.py": "the other gateway's configuration names the agent Claude Code",
}


@cache
def trees() -> Mapping[str, ast.Module]:
    """The syntax tree of every source file, by its path below the package."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def names_in(node: ast.AST) -> list[str]:
    """The names of dialects that stand in a piece of code as strings."""
    values = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return [value for value in values if isinstance(value, str) and value in DIALECTS]


def upstreams_in(node: ast.AST) -> list[str]:
    """The names of local programs and of their presets that stand in a piece of code as strings."""
    known = {
        name for dialect, program in LOCAL_PROGRAMS.items() for name in (dialect, program.preset) if name
    }
    values = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return [value for value in values if isinstance(value, str) and value in known]


def imports_an_upstream(tree: ast.AST) -> bool:
    return _imports(tree, tuple(f"dragoman.upstream.{name}" for name in LOCAL_PROGRAMS))


def compares_names(tree: ast.AST) -> bool:
    tests = (ast.Compare, ast.MatchValue)
    return any(names_in(node) for node in ast.walk(tree) if isinstance(node, tests))


def imports_a_dialect(tree: ast.AST) -> bool:
    return _imports(tree, tuple(f"dragoman.dialects.{name}" for name in DIALECTS))


def _imports(tree: ast.AST, folders: tuple[str, ...]) -> bool:
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    return any(module.startswith(folders) for module in modules)


def parses_events(tree: ast.AST) -> bool:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "SseReader" for called in calls)


def outside(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    return ((path, tree) for path, tree in trees().items() if not path.startswith(packages))


def classes_by_name() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return found


def test_a_class_name_has_one_meaning() -> None:
    found = classes_by_name()
    assert len(found) > 100
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_only_what_holds_facts_about_apis_compares_with_the_name_of_a_dialect() -> None:
    assert [path for path, tree in outside(*KNOWING_PACKAGES) if compares_names(tree)] == []


@pytest.mark.parametrize(
    ("breaks", "packages", "exceptions"),
    [
        (names_in, KNOWING_PACKAGES, MAY_NAME_A_DIALECT),
        (imports_a_dialect, ("dialects/",), MAY_IMPORT_A_DIALECT),
        (parses_events, ("wire/", "dialects/"), MAY_PARSE_EVENTS),
        (upstreams_in, KNOWING_UPSTREAMS, MAY_NAME_AN_UPSTREAM),
        (imports_an_upstream, ("upstream/",), {}),
    ],
    ids=["names", "imports", "events", "upstreams", "upstream imports"],
)
def test_the_exceptions_are_the_listed_ones(
    breaks: Callable[[ast.AST], object], packages: tuple[str, ...], exceptions: Mapping[str, str]
) -> None:
    found = [path for path, tree in outside(*packages) if breaks(tree)]
    assert [path for path in found if not path.startswith(tuple(exceptions))] == []
    unused = [path for path in exceptions if not any(each.startswith(path) for each in found)]
    assert unused == []


@pytest.mark.parametrize(
    ("code", "breaks"),
    [
        ('if provider.dialect == "gemini": pass', compares_names),
        ('if name in ("anthropic", "other"): pass', compares_names),
        ('match name:\n    case "openai_chat": pass', compares_names),
        ('TABLE = {"openai_responses": 1}', names_in),
        ("from dragoman.dialects.gemini import path", imports_a_dialect),
        ("import dragoman.dialects.anthropic.stream_check", imports_a_dialect),
        ("frames = SseReader().feed(events)", parses_events),
        ('if provider.dialect == "embedded": pass', upstreams_in),
        ('TABLE = {"claude-code": 1}', upstreams_in),
        ("from dragoman.upstream.claude_code.process import find_executable", imports_an_upstream),
    ],
)
def test_the_checks_find_what_they_forbid(code: str, breaks: Callable[[ast.AST], object]) -> None:
    assert breaks(ast.parse(code))


def test_other_code_passes_the_checks() -> None:
    allowed = 'from dragoman.dialects.registry import DIALECTS\nif kind == "other": read(SseReader)'
    tree = ast.parse(allowed)
    checks = (compares_names, names_in, imports_a_dialect, parses_events, upstreams_in, imports_an_upstream)
    assert not any(breaks(tree) for breaks in checks)


def test_the_description_of_a_package_names_each_of_its_modules() -> None:
    commands = {f"cli/{row[0].partition(':')[0].rpartition('.')[2]}.py" for row in COMMANDS.values()}
    unnamed = []
    for path in trees().keys() - commands:
        package, _, file = path.rpartition("/")
        if package and file != "__init__.py":
            description = ast.get_docstring(trees()[f"{package}/__init__.py"]) or ""
            name = file.removesuffix(".py")
            if not re.search(rf"[`(]{name}[`).]", description):
                unnamed.append(path)
    assert unnamed == [], "say in the docstring of the package what the module is for"


@pytest.mark.parametrize("name", LOCAL_PROGRAMS)
def test_every_local_program_has_a_package_with_the_functions_that_its_row_needs(name: str) -> None:
    program, module = LOCAL_PROGRAMS[name], import_module(f"dragoman.upstream.{name}.upstream")
    needed = {"build_upstream": True, "check_program": not program.is_internal}
    needed["remove_leftovers"] = bool(program.state_folder)
    assert {function: hasattr(module, function) for function in needed} == needed


def test_every_kind_of_upstream_is_http_or_a_local_program() -> None:
    folders = {path.parent.name for path in (SOURCE / "upstream").glob("*/__init__.py")}
    assert folders == {"http", *LOCAL_PROGRAMS}


def test_every_dialect_folder_is_registered_under_its_name() -> None:
    folders = {path.parent.name for path in (SOURCE / "dialects").glob("*/__init__.py")}
    assert folders == set(DIALECTS)


def test_every_dialect_has_the_files_that_a_dialect_needs() -> None:
    needed = {path.name for path in TOY.glob("*.py")}
    assert len(needed) == 10
    folders = {name: SOURCE / "dialects" / name for name in DIALECTS}
    present = {name: {path.name for path in folder.glob("*.py")} for name, folder in folders.items()}
    assert [name for name in DIALECTS if not needed <= present[name]] == []


#: Files that not every dialect has, with the reason.
ONLY_SOME_DIALECTS = {
    "forwarded_ending.py": "Responses numbers its events and repeats finished items in the last one",
    "hosted.py": "Chat has no blocks for tools that the server runs",
    "calls.py": "Chat sends calls in fragments, which compatible servers identify badly",
    "fragments.py": "Chat sends calls in fragments, in several forms",
    "deltas.py": "Chat has one delta object for every kind of block",
    "response_object.py": "Responses repeats the request in the reply",
    "item_emitter.py": "Responses writes items, whose events are numbered and repeat their content",
    "stream_items.py": "Responses sends items, which hold blocks",
    "streamed_text.py": "Responses repeats a text in later events, which may hold more of it",
    "rate_limits.py": "Gemini has no such headers, the OpenAI dialects share theirs",
    "logprobs.py": "Gemini has its own form of token probabilities, the OpenAI dialects share one",
}


def test_the_same_job_has_the_same_file_name_in_every_dialect() -> None:
    present = [{path.name for path in (SOURCE / "dialects" / name).glob("*.py")} for name in DIALECTS]
    shared = set.intersection(*present)
    assert len(shared) >= 22
    assert set.union(*present) - shared <= set(ONLY_SOME_DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_writer_has_a_handler_for_each_event_named_after_it(dialect: str) -> None:
    handlers = import_module(f"dragoman.dialects.{dialect}.stream_writer")._HANDLERS
    named = {event: "_on_" + re.sub("(?<!^)(?=[A-Z])", "_", event.__name__).lower() for event in handlers}
    assert set(handlers) == set(get_args(ReplyEvent))
    assert {event: handler.__name__ for event, handler in handlers.items()} == named


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_reader_names_the_handlers_of_its_events_alike(dialect: str) -> None:
    reader = import_module(f"dragoman.dialects.{dialect}.stream_reader")
    handlers = [getattr(each, "func", each) for each in getattr(reader, "_HANDLERS", {}).values()]
    assert [handler.__name__ for handler in handlers if not handler.__name__.startswith("_on_")] == []


def test_every_dialect_stands_in_the_contract_that_keeps_them_apart() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {each["id"]: each for each in project["tool"]["importlinter"]["contracts"]}
    (layer,) = contracts["dialects"]["layers"]
    assert {part.strip(" ()\n").rpartition(".")[2] for part in layer.split("|")} == set(DIALECTS)
