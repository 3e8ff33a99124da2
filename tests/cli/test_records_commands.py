"""`dragoman records` with wrong input: nothing is destroyed, and each error is explained."""

import stat
from pathlib import Path

import msgspec
import pytest

from dragoman.cli.records import format_losses, format_turns
from dragoman.hub.loss import Loss
from dragoman.records.archive import write_archive
from dragoman.records.losses import group_losses
from dragoman.records.store import COLUMNS, RECORDS_SCHEMA, insert_turn
from dragoman.storage.database import connect
from tests.cli.run_command import Outcome, dragoman

DETAILS: dict[str, object] = {
    name: [] for name in ("attempts", "calls", "losses", "reply_losses", "interventions")
} | {
    **{name: {} for name in ("usage", "request_headers", "reply_headers")},
    "transport": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose records have one session with one turn, without contents."""
    (tmp_path / "dragoman.toml").write_text(f'[server]\nstate = "{tmp_path / "state"}"\n', "utf-8")
    row = {name: "" if "TEXT" in kind else 0 for name, kind in COLUMNS.items()} | {
        "session": "s",
        "number": 1,
    }
    connection = connect(None, RECORDS_SCHEMA)
    insert_turn(connection, row, msgspec.json.encode(DETAILS), ())
    with (tmp_path / "in.zst").open("wb") as file:
        write_archive(connection, "s", file)
    connection.close()
    assert use(tmp_path, "import", "in.zst").out == "1 turns: s\n"
    return tmp_path


def use(folder: Path, *words: str) -> Outcome:
    return dragoman(folder, "records", *words)


def test_the_losses_of_a_session_are_shown_with_advice() -> None:
    losses = [Loss(f"messages[{at}].content[0]", "the target takes no image") for at in (1, 4)]
    groups = group_losses([(1, [*losses, Loss("", "odd \x1b[2J")]), (3, losses)])
    assert list(format_losses(msgspec.to_builtins(groups))) == [
        "loss in 2 turns: messages[*].content[*]: the target takes no image "
        "(set images = true if the model accepts them)",
        "loss in turn 1: the reply: odd ?[2J",
    ]


def test_what_the_cache_saved_stands_beside_the_cost() -> None:
    session = {"session": "s", "agent": "", "project": "", "loss_groups": [], "unpriced": 0, "cost": 51_232}
    assert [*format_turns({**session, "saved": 28_800}, [])][
        -1
    ] == "cost: $0.051232, $0.0288 saved by the prompt cache"
    for unknown in (None, 0):
        assert [*format_turns({**session, "saved": unknown}, [])][-1] == "cost: $0.051232"


def test_an_export_replaces_a_file_only_if_it_is_complete(folder: Path) -> None:
    file = folder / "kept.zst"
    file.write_text("precious", "utf-8")
    file.chmod(0o644)
    refused = use(folder, "export", "none", "kept.zst")
    assert (refused.code, "no session 'none'" in refused.err) == (2, True)
    assert file.read_text("utf-8") == "precious"
    assert use(folder, "export", "none", "new.zst").code == 2
    assert not (folder / "new.zst").exists()
    assert use(folder, "export", "s", "kept.zst").code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert use(folder, "import", "kept.zst", "--as", "copy").code == 0
    assert [path.name for path in folder.glob(".kept*")] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "s", "99999999999999999999"), "has no turn"),
        (("show", "s", "1", "client_request"), 'record = "bodies"'),
        (("show", "s", "1", "client_request", "--raw"), 'record = "bodies"'),
        (("list", "cost>"), "expected a value"),
        (("list", "--limit", "-1"), "not in the range"),
    ],
)
def test_wrong_input_is_explained(words: tuple[str, ...], message: str, folder: Path) -> None:
    outcome = use(folder, *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err
