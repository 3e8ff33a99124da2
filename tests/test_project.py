"""The repository keeps the promises it makes about itself."""

import ast
import io
import re
import shutil
import socket
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman
from tools.check_sizes import FILE_LINES, FUNCTION_LINES, main, oversized

ROOT = Path(__file__).resolve().parent.parent
UNTRACKED_FOLDERS = {
    ".git",
    ".hypothesis",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "htmlcov",
    "node_modules",
}

# Written so that this file does not match itself. Recorded conversations have the home of an invented user.
MACHINE_PATH = re.compile(r"(?<![\w.:/~-])/(?:root|work|home|tmp|Users)/(?!user\b)[\w.]")
REGISTRY = re.compile(r"pypi[.]org|python" r"hosted[.]org|npm" r"js[.]org|file:" r"//", re.IGNORECASE)
#: An exception from a check, without a code or without a reason behind it.
EXCUSE = re.compile(
    r"# *(?:todo|fixme|pragma|noqa(?!: [A-Z]+\d+(?:, [A-Z]+\d+)* \(\w)|type: *ignore(?!\[[\w, -]+\]  # \w))",
    re.IGNORECASE,
)
#: Words for persons and for speech. Code sends, receives, names and reports.
PERSONS = re.compile(
    r"\b(?:told|said|saying|spoken|heard|hears|whoever|nobody|somebody|anybody|everybody|ought|thereby|stranger)\b",
    re.IGNORECASE,
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: A test that is left out, without a reason.
SKIPPED = re.compile(
    r"\bxfail\b|mark\.skip\b|skipif\((?!.*reason=)|importorskip\((?!.*reason=)|pytest\.skip\(\)"
)


def files_of_the_project() -> list[Path]:
    """What git tracks; where there is no git to ask, every file that is not plainly a by-product."""
    git = shutil.which("git")
    if git:
        listing = subprocess.run([git, "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
        names = [name for name in listing.stdout.decode().split("\0") if name]
        if listing.returncode == 0 and names:
            return [ROOT / name for name in names if (ROOT / name).is_file()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(
            part in UNTRACKED_FOLDERS or part.endswith("_cache") for part in path.relative_to(ROOT).parts
        )
    ]


PROJECT_FILES = files_of_the_project()


def places_of(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def project_table() -> dict[str, object]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(table, dict)
    return table


def lock_files() -> list[Path]:
    return sorted((ROOT / "requirements").glob("*.txt"))


def test_no_file_mentions_a_path_of_the_machine_it_was_written_on() -> None:
    assert places_of(MACHINE_PATH, PROJECT_FILES) == []


def test_no_package_of_another_project_is_in_the_repository() -> None:
    """`pip download` leaves archives in the current folder."""
    endings = (".whl", ".tar.gz", ".tgz", ".zip", ".egg")
    assert [path.name for path in PROJECT_FILES if path.name.endswith(endings)] == []


def test_no_file_mentions_a_package_registry() -> None:
    assert places_of(REGISTRY, PROJECT_FILES) == []


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page, or of the comments and docstrings of a source file."""
    text = path.read_text("utf-8")
    lines = list(enumerate(text.splitlines(), 1))
    if path.suffix == ".md":
        yield from lines
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from lines[first.lineno - 1 : first.end_lineno]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_comments_docstrings_and_pages_describe_code_without_persons() -> None:
    files = [*python_files(), *(path for path in PROJECT_FILES if path.suffix == ".md")]
    assert [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in files
        for number, line in prose_of(path)
        if (found := PERSONS.search(line))
    ] == []


def python_files() -> list[Path]:
    return [path for path in PROJECT_FILES if path.suffix == ".py" and path != Path(__file__)]


def test_an_exception_from_a_check_has_a_reason() -> None:
    assert places_of(EXCUSE, python_files()) == []


def test_a_test_is_left_out_only_for_a_reason() -> None:
    assert places_of(SKIPPED, python_files()) == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (EXCUSE, "x = f()  # noqa"),
        (EXCUSE, "x = f()  # noqa: S608"),
        (EXCUSE, "x = f()  # type: ignore"),
        (EXCUSE, "x = f()  # type: ignore[index]"),
        (EXCUSE, "if x:  # pragma: no cover"),
        (SKIPPED, "@pytest.mark.skip"),
        (SKIPPED, "@pytest.mark.skipif(True)"),
        (SKIPPED, "@pytest.mark.xfail"),
        (SKIPPED, 'pytest.importorskip("mcp")'),
    ],
)
def test_an_exception_without_a_reason_is_found(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


def test_every_source_folder_is_a_package() -> None:
    package = ROOT / "src" / "dragoman"
    folders = {path.parent for path in PROJECT_FILES if path.is_relative_to(package)}
    folders |= {parent for folder in folders for parent in folder.parents if parent.is_relative_to(package)}
    assert package in folders
    assert sorted(str(f.relative_to(ROOT)) for f in folders if not (f / "__init__.py").is_file()) == []


def test_the_package_and_its_metadata_name_the_same_version() -> None:
    assert project_table()["version"] == dragoman.__version__


def test_the_changelog_has_an_entry_for_the_current_version() -> None:
    headings = re.findall(
        r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert dragoman.__version__ in headings


def test_the_changelog_begins_with_what_is_unreleased_and_uses_known_groups() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    groups = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_links_between_our_pages_lead_somewhere() -> None:
    pages = [path for path in PROJECT_FILES if path.suffix == ".md" and "tests" not in path.parts]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert links
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_a_page_names_only_source_files_that_exist() -> None:
    """Decisions and the changelog describe the past, and are left out."""
    pages = [
        path
        for path in PROJECT_FILES
        if path.suffix == ".md" and path.name != "CHANGELOG.md" and "decisions" not in path.parts
    ]
    places = (ROOT, ROOT / "src" / "dragoman")
    named = {
        (path, name)
        for path in pages
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text("utf-8"))
    }
    assert named
    assert [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name in sorted(named)
        if not any((place / name).is_file() for place in (*places, path.parent))
    ] == []


def test_every_extra_is_on_the_page_about_installing() -> None:
    text = (ROOT / "docs" / "installing.md").read_text("utf-8")
    extras = project_table()["optional-dependencies"]
    assert isinstance(extras, dict)
    assert [name for name in extras if f"| `{name}` |" not in text] == []


def test_decisions_are_numbered_one_by_one() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for number, page in enumerate(pages, 1):
        assert page.read_text(encoding="utf-8").startswith(f"# {number}. "), page.name


def test_there_is_a_lock_for_developers() -> None:
    assert ROOT / "requirements" / "dev.txt" in lock_files()


@pytest.mark.parametrize("lock", lock_files(), ids=lambda path: path.name)
def test_a_lock_pins_every_package_with_hashes(lock: Path) -> None:
    text = re.sub(r" *\\\n +", " ", lock.read_text(encoding="utf-8"))
    packages = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert packages
    assert [
        line for line in packages if not re.match(r"[\w.\[\],-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)
    ] == []


@pytest.mark.parametrize("lock", lock_files(), ids=lambda path: path.name)
def test_a_lock_holds_no_addresses_and_no_index_options(lock: Path) -> None:
    assert places_of(re.compile(r"://|^--"), [lock]) == []


def test_the_lock_knows_every_declared_dependency() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [*table["project"]["dependencies"], *table["dependency-groups"]["dev"]]
    names = {re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0] for requirement in declared}
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE))
    assert names - locked == set()


def test_a_file_of_too_many_lines_is_reported(tmp_path: Path) -> None:
    long_file = tmp_path / "long.py"
    long_file.write_text("pass\n" * FILE_LINES)
    assert list(oversized(long_file)) == []
    long_file.write_text("pass\n" * (FILE_LINES + 1))
    assert list(oversized(long_file)) == [f"{long_file}: {FILE_LINES + 1} lines, at most {FILE_LINES}"]


def test_a_function_of_too_many_lines_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text("class A:\n    async def f(self):\n" + "        pass\n" * FUNCTION_LINES)
    assert list(oversized(file)) == [f"{file}:2: f has {FUNCTION_LINES + 1} lines, at most {FUNCTION_LINES}"]


def test_a_size_check_that_finds_nothing_to_check_fails(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 2


def test_a_test_cannot_connect_to_another_machine() -> None:
    with socket.socket() as stranger, pytest.raises(RuntimeError, match="do not reach the network"):
        stranger.connect(("192.0.2.1", 80))


def test_a_test_cannot_resolve_the_name_of_another_machine() -> None:
    with pytest.raises(RuntimeError, match="do not reach the network"):
        socket.getaddrinfo("example.invalid", 80)


def test_a_test_can_connect_to_this_machine() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as client,
    ):
        assert client.getpeername() == server.getsockname()
