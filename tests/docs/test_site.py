"""The documentation site, and `dragoman docs`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.run_command import dragoman
from tests.docs.blocks import PAGES, ROOT


def list_pages(nav: object) -> list[str]:
    match nav:
        case str():
            return [nav]
        case list():
            return [page for each in nav for page in list_pages(each)]
        case dict():
            return [page for each in nav.values() for page in list_pages(each)]
    raise AssertionError(nav)


@pytest.mark.rule("M51")
def test_the_site_has_every_page_and_no_broken_link_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert set(list_pages(settings["nav"])) == pages
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings), "utf-8")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = list((tmp_path / "site").rglob("*.html"))
    assert len(built) >= len(pages)
    for page in built:
        assert not re.findall(
            r"<(?:script|link)[^>]+(?:src|rel=.stylesheet. href)=.https?:[^>]+>", page.read_text("utf-8")
        )


@pytest.mark.rule("M51")
def test_the_pages_are_shown_in_the_terminal(tmp_path: Path) -> None:
    topics = dragoman(tmp_path, "docs")
    assert topics.out.splitlines()[0].split("  ", 1)[0] == "guide-claude-code-ollama"
    shown = dragoman(tmp_path, "docs", "keys")
    assert shown.out.strip() == (ROOT / "docs" / "keys.md").read_text("utf-8").strip()
    found = dragoman(tmp_path, "docs", "--search", "num_ctx ollama")
    assert "guide-claude-code-ollama: Ollama cuts every prompt" in found.out
    assert dragoman(tmp_path, "docs", "kyes").err.endswith("did you mean 'keys'?\n")
    assert dragoman(tmp_path, "docs", "--search", "xyzzyplugh").code == 2
