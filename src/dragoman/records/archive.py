"""A session as one file: lines of JSON, compressed with zstd. Contents may be left out.

The first line is the `ArchiveHead`. A line is a block or a turn; blocks stand before the turns that use them,
and their numbers are valid in this file only. `zstd -dc FILE` shows the lines.
"""

import binascii
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import msgspec
import zstandard

from dragoman.hub.errors import ConfigError
from dragoman.hub.loss import Loss
from dragoman.records.block_refs import BlockRef
from dragoman.records.blocks import count_uses, decompress, expand_lists, insert_block
from dragoman.records.filters import Condition
from dragoman.records.reading import find_session_id, list_turns, read_turn
from dragoman.records.store import COLUMNS, BodyRow, insert_turn, read_bodies

FORMAT = "dragoman session"
VERSION = 1
#: Bytes of a line. A block is a part of one message.
MAX_LINE = 128 * 1024 * 1024
#: Bytes of the file that are decompressed at once. Zstandard makes up to 30,000 times as many of them.
_PIECE = 4096

#: The details of a turn, and their types in JSON.
_DETAILS: Mapping[str, type] = {
    "attempts": list,
    "calls": list,
    "reply_losses": list,
    "usage": dict,
    "request_headers": dict,
    "reply_headers": dict,
    "transport": str,
}
_OTHER_DETAILS: Mapping[str, type] = {"losses": list, "interventions": list}
_TYPES: Mapping[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (int, float)}


class ArchivedBody(msgspec.Struct, frozen=True, kw_only=True):
    """One content of a turn: the numbers of its blocks, and the time and length of its pieces."""

    part: str
    round: int
    blocks: list[int]
    pieces: list[tuple[int, int]] = []


class ArchiveLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: the head (`format`), a block (`text` or `base64`) or a turn (`row`)."""

    format: str = ""
    version: int = 0
    session: str = ""
    has_contents: bool = False
    block: int = 0
    text: str | None = None
    base64: str | None = None
    row: dict[str, Any] | None = None
    details: dict[str, Any] = {}
    bodies: list[ArchivedBody] = []


def write_archive(
    connection: sqlite3.Connection, session: str, file: BinaryIO, *, with_contents: bool = True
) -> int:
    """Write a session. Returns the number of its turns."""
    session = find_session_id(connection, session)
    turns = 0
    with zstandard.ZstdCompressor(level=9).stream_writer(file, closefd=False) as compressed:
        for line in _list_lines(connection, session, with_contents=with_contents):
            compressed.write(msgspec.json.encode(line) + b"\n")
            turns += line.row is not None
    return turns


def _list_lines(
    connection: sqlite3.Connection, session: str, *, with_contents: bool
) -> Iterator[ArchiveLine]:
    yield ArchiveLine(format=FORMAT, version=VERSION, session=session, has_contents=with_contents)
    written: dict[BlockRef, int] = {}
    after = 0
    while rows := list_turns(connection, Condition("session = ?", (session,)), after=after):
        after = rows[-1]["id"]
        for row in rows:
            turn = row.pop("id")
            bodies = [
                body._replace(blocks=expand_lists(connection, body.blocks))
                for body in (read_bodies(connection, turn) if with_contents else ())
            ]
            for ref in dict.fromkeys(ref for body in bodies for ref in body.blocks if ref not in written):
                written[ref] = len(written) + 1
                yield _build_block_line(connection, ref, written[ref])
            details = read_turn(connection, session, row["number"])
            kept = {name: details[name] for name in _DETAILS} | {"entry": details.get("entry", "")}
            kept |= {"losses": details["loss_list"], "interventions": details["intervention_list"]}
            yield ArchiveLine(
                row=row if with_contents else {**row, "level": "meta"},
                details={**kept, "reply_losses": []},
                bodies=[
                    ArchivedBody(
                        part=body.part,
                        round=body.round,
                        blocks=[written[ref] for ref in body.blocks],
                        pieces=list(body.pieces),
                    )
                    for body in bodies
                ],
            )


def _build_block_line(connection: sqlite3.Connection, ref: BlockRef, number: int) -> ArchiveLine:
    (data,) = connection.execute("SELECT data FROM blocks WHERE id = ?", (ref.block,)).fetchone()
    content = ref.cut(decompress(data))
    try:
        return ArchiveLine(block=number, text=content.decode())
    except UnicodeDecodeError:
        return ArchiveLine(block=number, base64=b64encode(content).decode())


def read_archive(connection: sqlite3.Connection, file: BinaryIO, name: str = "") -> tuple[str, int]:
    """Add the session of an archive, under another name if one is given. Returns its name and its turns."""
    lines = _read_lines(file)
    head = next(lines, None)
    if head is None or head.format != FORMAT:
        raise ConfigError("this is no exported session", hint="`dragoman records export` writes one")
    if head.version > VERSION:
        raise ConfigError("a newer dragoman wrote this file", hint="update dragoman")
    session = name or head.session
    if connection.execute("SELECT 1 FROM turns WHERE session = ?", (session,)).fetchone():
        raise ConfigError(
            f"session {session!r} is recorded already", hint="give it another name with --as NAME"
        )
    blocks: dict[int, BlockRef] = {}
    turns = 0
    for line in lines:
        if line.row is None:
            content = _read_block(line)
            blocks[line.block] = BlockRef(insert_block(connection, content)[0])
            continue
        _insert_line(connection, line, session, blocks)
        turns += 1
    return session, turns


def _read_block(line: ArchiveLine) -> bytes:
    try:
        return (line.text or "").encode() if line.base64 is None else b64decode(line.base64, validate=True)
    except binascii.Error:
        raise ConfigError("a block of the file cannot be decoded") from None


def _check_turn(line: ArchiveLine, row: dict[str, Any]) -> None:
    """Refuse a turn that could not be shown: with other columns or details, or of other types."""
    for name, kind in COLUMNS.items():
        value, (affinity, _, is_needed) = row.get(name), kind.partition(" ")
        if value is None and not is_needed:
            continue
        if not isinstance(value, _TYPES[affinity]):
            raise ConfigError(f"the file has a turn without a valid {name}")
    for name, expected in {**_DETAILS, **_OTHER_DETAILS}.items():
        if not isinstance(line.details.get(name), expected):
            raise ConfigError(f"the file has a turn without valid {name}")
    for name in ("losses", "reply_losses"):
        try:
            msgspec.convert(line.details[name], list[Loss])
        except msgspec.ValidationError:
            raise ConfigError(f"the file has a turn without valid {name}") from None


def _insert_line(
    connection: sqlite3.Connection, line: ArchiveLine, session: str, blocks: dict[int, BlockRef]
) -> None:
    row = line.row or {}
    _check_turn(line, row)
    try:
        bodies = [
            BodyRow(body.part, body.round, [blocks[block] for block in body.blocks], body.pieces)
            for body in line.bodies
        ]
    except KeyError:
        raise ConfigError("the file lacks a block of a turn") from None
    for body in bodies:
        count_uses(connection, body.blocks)
    insert_turn(connection, {**row, "session": session}, msgspec.json.encode(line.details), bodies)


def _read_lines(file: BinaryIO) -> Iterator[ArchiveLine]:
    decoder = msgspec.json.Decoder(ArchiveLine)
    try:
        for line in _split_lines(file):
            yield decoder.decode(line)
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"the file cannot be read: {error}") from None


def _split_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a compressed file. A file without its end is an error: a copy was cut off."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    size = 0
    while not decompressor.eof and (piece := file.read(_PIECE)):
        *ends, rest = decompressor.decompress(piece).split(b"\n")
        for end in ends:
            yield b"".join([*parts, end])
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE:
            raise ConfigError("the file has a line that is too long")
    if not decompressor.eof:
        raise ConfigError("the file is not complete", hint="export the session again")
