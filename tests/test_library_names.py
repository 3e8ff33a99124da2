"""What a user of the library or of an installed package sees first."""

import ast
import re
from pathlib import Path

import pytest

import dragoman
from dragoman.hub.errors import DragomanError

SOURCE = Path(dragoman.__file__).parent
#: Pages of the repository, and paths of the API in place of a command.
ELSEWHERE = re.compile(r"docs/[a-z-]+\.md|GET /admin/")


def list_messages(path: Path) -> list[str]:
    """The strings of a module without its docstrings, which only readers of the code see."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs]
    return [node.value for node in nodes if isinstance(node.value, str)]


@pytest.mark.rule("M31")
def test_the_public_names_are_listed_before_they_are_loaded() -> None:
    assert dir(dragoman) == sorted(dragoman.__all__)
    assert "translate_request" in dir(dragoman)


@pytest.mark.rule("M31")
def test_an_unknown_dialect_is_reported_with_the_known_ones() -> None:
    with pytest.raises(DragomanError, match=r"anthropc.*anthropic, openai_chat, openai_responses, gemini"):
        dragoman.translate_request({}, source="anthropc", target="gemini")


@pytest.mark.rule("M32")
def test_no_message_names_a_file_of_the_repository() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for text in list_messages(path)
        if ELSEWHERE.search(text)
    ]
    assert found == []
