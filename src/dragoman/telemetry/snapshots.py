"""Files that show what governance did to a reply: `REQUEST.before.json` and `REQUEST.after.json`.

Only for routes that ask for it, only where something was done, without secrets, and only so many.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import BoundedSemaphore

import msgspec

from dragoman.exchange.gateway import Gateway
from dragoman.exchange.record import Record
from dragoman.exchange.secrets import MASK
from dragoman.governance.snapshot import SnapshotSide

FOLDER_NAME = "governance"
#: Files that are kept, the newest.
MOST_FILES = 400
#: Work that may wait to be written; what comes on top of it is not kept.
MOST_WAITING = 50

#: Keys and tokens look like nothing else: long, without blanks, letters and digits mixed.
_TOKEN = re.compile(r"[A-Za-z0-9_+/=.-]{20,}")
_IN_ADDRESS = re.compile(r"(://[^\s/:@\"]{1,64}:)[^\s/@\"]{1,128}(?=@)")
_NAMED = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|authorization)\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)"
    r"(?:bearer\s{1,4})?[^\s\"'\\,;}]{1,200}"
)
#: What says itself that it is one, even if it is short or has no digit.
_DECLARED = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-ant-|sk-proj-|[rs]k_live_|AIza|AKIA|ASIA)"
    r"[A-Za-z0-9_-]{10,}"
)
_PRIVATE_KEY = re.compile(r"(?s)-----BEGIN [A-Z ]{0,20}PRIVATE KEY.*?(?:-----END [A-Z ]{0,20}KEY-----|\Z)")
_SAFE_NAME = re.compile(r"[^A-Za-z0-9_-]")


def redacted(text: str) -> str:
    """The text without what looks like a secret."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _DECLARED.sub(MASK, text)
    text = _NAMED.sub(rf"\1{MASK}", text)
    text = _IN_ADDRESS.sub(rf"\1{MASK}", text)
    return _TOKEN.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    token = found[0]
    is_mixed = any(each.isdigit() for each in token) and any(each.isalpha() for each in token)
    # A path is long and mixed as well; its parts are not.
    longest = max(map(len, re.split(r"[/.]", token)))
    return MASK if is_mixed and longest >= 20 else token


class Snapshots:
    """A witness of exchanges (`Gateway.witnesses`) that writes beside the loop.

    The files stand in the folder of what outlives the process; without one nothing is written.
    """

    def __init__(self, gateway: Gateway) -> None:
        path = gateway.database.path
        self._folder = path.parent / FOLDER_NAME if path is not None else None
        self._gateway = gateway
        self._room = BoundedSemaphore(MOST_WAITING)
        self._thread: ThreadPoolExecutor | None = None

    def __call__(self, record: Record) -> None:
        snapshot = record.snapshot
        if snapshot is None or not record.interventions or self._folder is None:
            return
        if not self._room.acquire(blocking=False):
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "dragoman-snapshots")
        known = record.target and self._gateway.view.contacts.get(record.target.provider)
        head = {**record.line(), "interventions": list(record.governance_lines())}
        texts = []
        for name, side in (("before", snapshot.before), ("after", snapshot.after)):
            text = msgspec.json.encode({"side": name, **head, "reply": _told(side)}).decode()
            texts.append((name, known.secrets.hidden(text) if known else text))
        name = _SAFE_NAME.sub("_", record.request_id)[:80]
        self._thread.submit(_write, self._folder, name, texts).add_done_callback(
            lambda _: self._room.release()
        )

    def close(self) -> None:
        """Wait until everything is written."""
        if self._thread is not None:
            self._thread.shutdown()


def _write(folder: Path, name: str, texts: list[tuple[str, str]]) -> None:
    """A snapshot that cannot be written is no reason to disturb anybody."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for side, text in texts:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with open(os.open(folder / f"{name}.{side}.json", flags, 0o600), "w", encoding="utf-8") as file:
                file.write(msgspec.json.format(text, indent=2))
        files = sorted(folder.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for old in files[:-MOST_FILES]:
            old.unlink(missing_ok=True)
    except OSError:
        return


def _told(side: SnapshotSide) -> object:
    """One side without secrets. Arguments are shown as the text they are, however broken."""
    return {
        "ending": side.ending,
        "left_out": side.left_out,
        "blocks": [
            msgspec.to_builtins(msgspec.structs.replace(block, text=redacted(block.text)))
            for block in side.blocks
        ],
    }
