"""`dragoman activity` prints what agents have reported."""

import time
from pathlib import Path

import msgspec

from dragoman.accounts.activity import ActivityCounts, add_activity
from dragoman.accounts.keys import create_key
from tests.cli.run_command import dragoman
from tests.server.keyholder import KeyHolder


def test_activity_is_shown_by_key_and_session(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text(f'[server]\nstate = "{tmp_path}/state"\n', "utf-8")
    empty = dragoman(tmp_path, "activity")
    assert (empty.code, empty.out) == (0, "")
    assert "no activity" in empty.err
    holder = KeyHolder(tmp_path / "state" / "state.db")
    key, _ = holder.do(lambda transaction: create_key(transaction, "ann", time.time()))
    counts = ActivityCounts(lines_added=1200, lines_removed=3, edits_accepted=2, active_seconds=5400)
    sessions = {"s\x1b1": counts}
    holder.do(lambda transaction: add_activity(transaction, key.caller.id, sessions, time.time()))
    shown = dragoman(tmp_path, "activity", "--by", "key", "--by", "session")
    assert shown.out.splitlines()[1].split() == [
        *("ann", "s?1", "+1,200", "-3", "0", "0", "2", "/", "0", "0", "/", "0", "1h", "30m")
    ]
    (row,) = msgspec.json.decode(dragoman(tmp_path, "activity", "--json").out)
    assert (row["key"], row["lines_added"]) == ("ann", 1200)
