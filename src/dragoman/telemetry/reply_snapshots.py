"""Files that show how governance changed a reply: `REQUEST.before.json` and `REQUEST.after.json`.

They are written only for routes that enable snapshots and for replies with interventions. The files hold no
secrets, and their number is bounded.
"""

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

import msgspec

from dragoman.governance.reply_snapshots import ReplySnapshot
from dragoman.telemetry.redaction import redact

if TYPE_CHECKING:
    from dragoman.exchange.record import ExchangeRecord

FOLDER_NAME = "governance"
#: Files in the folder. The oldest are deleted first.
MAX_FILES = 400
#: Snapshots that wait for the writing thread. Further ones are dropped.
MAX_WAITING = 50

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class SnapshotWriter:
    """Writes snapshots on a thread of its own. Without a state folder nothing is written."""

    def __init__(self, state_folder: Path | None) -> None:
        self._folder = state_folder / FOLDER_NAME if state_folder is not None else None
        self._free = BoundedSemaphore(MAX_WAITING)
        self._thread: ThreadPoolExecutor | None = None

    def write_snapshot(self, record: "ExchangeRecord") -> None:
        """Write both sides of the reply of an exchange that has ended, if it has any. Does not wait."""
        snapshots = record.reply_snapshots
        if snapshots is None or not record.interventions or self._folder is None:
            return
        if not self._free.acquire(blocking=False):
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "dragoman-snapshots")
        head = {**record.line(), "interventions": list(record.governance_lines())}
        texts = []
        for name, side in (("before", snapshots.before), ("after", snapshots.after)):
            reply = _redact_side(side, record.redact)
            text = msgspec.json.encode({"side": name, **head, "reply": reply}).decode()
            # Names and ids of calls are a model's words too.
            texts.append((name, record.redact(text)))
        name = _UNSAFE.sub("_", record.request_id)[:80]
        task = self._thread.submit(_write_files, self._folder, name, texts)
        task.add_done_callback(lambda _: self._free.release())

    def close(self) -> None:
        """Wait until everything is written."""
        if self._thread is not None:
            self._thread.shutdown()


def _write_files(folder: Path, name: str, texts: list[tuple[str, str]]) -> None:
    """Write the files and delete the oldest ones. Ignores errors: a snapshot is not essential."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for side, text in texts:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with open(os.open(folder / f"{name}.{side}.json", flags, 0o600), "w", encoding="utf-8") as file:
                file.write(msgspec.json.format(text, indent=2))
        files = sorted(folder.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for old in files[:-MAX_FILES]:
            old.unlink(missing_ok=True)
    except OSError:
        return


def _redact_side(side: ReplySnapshot, hide_secrets: Callable[[str], str]) -> object:
    """One side of a reply without secrets. Arguments stay text, because they may be invalid JSON.

    Known secrets come first (`hide_secrets`): a part of one may have the form of another.
    """
    return {
        "ending": side.ending,
        "left_out": side.left_out,
        "blocks": [
            msgspec.to_builtins(msgspec.structs.replace(block, text=redact(hide_secrets(block.text))))
            for block in side.blocks
        ],
    }
