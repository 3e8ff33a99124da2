"""The blocks of contents in the file of the records: the SQL that writes and reads them, and their form.

A block is compressed. Shared blocks are found by their hash. All functions expect an open transaction.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from os import urandom
from threading import local

import zstandard

from dragoman.records.block_refs import BlockRef, pack_refs, unpack_refs

#: Bytes of a turn's details, or of the list of its contents, from which on they are compressed.
MIN_COMPRESSED = 2048

#: A compressor serves one thread.
_thread = local()


def compress(data: bytes) -> bytes:
    compressor: zstandard.ZstdCompressor | None = getattr(_thread, "compressor", None)
    if compressor is None:
        # To build one takes longer than to compress a message.
        compressor = _thread.compressor = zstandard.ZstdCompressor(level=3)
    return compressor.compress(data)


def decompress(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data)


def compress_long(data: bytes) -> bytes:
    """The data, compressed unless it is short: to compress that costs more. It is JSON or MessagePack."""
    return data if len(data) < MIN_COMPRESSED else compress(data)


def decompress_long(data: bytes) -> bytes:
    """What `compress_long` was given."""
    return decompress(data) if data.startswith(zstandard.FRAME_HEADER) else data


def hash_content(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def insert_block(connection: sqlite3.Connection, content: bytes) -> tuple[int, bytes]:
    """Write a block unless it is there. Returns its id and its hash. Its uses are counted by `count_uses`."""
    key = hash_content(content)
    found = _find(connection, key)
    return found or _insert(connection, key, compress(content)), key


def insert_new_block(connection: sqlite3.Connection, content: bytes) -> tuple[int, bytes]:
    """Write a block that is unique, such as a reply: to hash it takes longer than to compress it."""
    key = urandom(16)
    return _insert(connection, key, compress(content)), key


def insert_list(connection: sqlite3.Connection, blocks: Sequence[BlockRef]) -> tuple[int, bytes]:
    """Write a list of blocks unless it is there. Returns its id and its hash."""
    data = pack_refs(blocks)
    key = hash_content(b"list" + data)
    number = _find(connection, key)
    if not number:
        number = _insert(connection, key, data, is_list=True)
        count_uses(connection, blocks)
    return number, key


def _find(connection: sqlite3.Connection, key: bytes) -> int:
    found = connection.execute("SELECT id FROM blocks WHERE hash = ?", (key,)).fetchone()
    return int(found[0]) if found is not None else 0


def has_blocks(connection: sqlite3.Connection, blocks: Mapping[int, bytes]) -> bool:
    """Whether the file has all these blocks, given by their ids and hashes."""
    marks = ", ".join("?" * len(blocks))
    sql = f"SELECT id, hash FROM blocks WHERE id IN ({marks})"  # noqa: S608 (marks)
    return dict(connection.execute(sql, tuple(blocks)).fetchall()) == blocks


def _insert(connection: sqlite3.Connection, key: bytes, data: bytes, *, is_list: bool = False) -> int:
    sql = "INSERT INTO blocks (hash, uses, data, is_list) VALUES (?, 0, ?, ?)"
    return connection.execute(sql, (key, data, is_list)).lastrowid or 0


def count_uses(connection: sqlite3.Connection, blocks: Iterable[BlockRef], step: int = 1) -> None:
    counts = Counter([ref.block for ref in blocks])
    rows = [(step * count, block) for block, count in counts.items()]
    connection.executemany("UPDATE blocks SET uses = uses + ? WHERE id = ?", rows)


def expand_lists(connection: sqlite3.Connection, blocks: Sequence[BlockRef]) -> list[BlockRef]:
    """The parts with each list block replaced by its items, recursively."""
    lists: dict[int, list[BlockRef]] = {}
    unseen = {ref.block for ref in blocks}
    while unseen:
        found = select_blocks(connection, unseen, "is_list")
        lists.update((number, unpack_refs(data)) for number, data in found)
        unseen = {each.block for number, _ in found for each in lists[number]} - lists.keys()
    expanded: list[BlockRef] = []
    waiting = list(reversed(blocks))
    while waiting:
        ref = waiting.pop()
        if ref.block in lists:
            waiting += reversed(lists[ref.block])
        else:
            expanded.append(ref)
    return expanded


def select_blocks(
    connection: sqlite3.Connection, blocks: Iterable[int], condition: str = "1"
) -> list[tuple[int, bytes]]:
    wanted, found = list(blocks), []
    for start in range(0, len(wanted), 500):
        some = wanted[start : start + 500]
        marks = ", ".join("?" * len(some))
        sql = f"SELECT id, data FROM blocks WHERE id IN ({marks}) AND {condition}"  # noqa: S608 (marks)
        found += connection.execute(sql, some).fetchall()
    return found
