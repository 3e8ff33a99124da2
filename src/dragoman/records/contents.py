"""`BodyWriter`: splits, redacts and writes the contents of turns. It belongs to the recorder's thread."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dragoman.config.config import Config
from dragoman.records.block_refs import BlockRef
from dragoman.records.blocks import count_uses, has_blocks, insert_block, insert_list, insert_new_block
from dragoman.records.compact import CompactStream, TextRun, compact_outputs, compact_stream
from dragoman.records.redaction import (
    MIN_SECRET,
    find_clean_texts,
    list_credentials,
    redact_content,
    redact_stream,
    redact_texts,
)
from dragoman.records.segments import RequestMemory, Segment, join_segments, split_request
from dragoman.records.store import BodyRow
from dragoman.records.taps import BodyTap, PendingBody


class TurnPack:
    """What is new in a turn, as one block: to write many small blocks costs more."""

    def __init__(self) -> None:
        self._contents: list[bytes] = []
        self._size = 0

    def add(self, content: bytes) -> tuple[int, int]:
        """The place of the content in the block."""
        start = self._size
        self._contents.append(content)
        self._size += len(content)
        return start, self._size

    def write(self, connection: sqlite3.Connection) -> tuple[int, bytes]:
        """The id and the hash of the block."""
        return insert_new_block(connection, b"".join(self._contents)) if self._size else (0, b"")


class CompactReply(NamedTuple):
    """A reply in its compact form, with the time and the length of each piece."""

    part: str
    round: int
    compact: CompactStream
    pieces: list[tuple[int, int]]


class BodyWriter:
    """Prepares requests when they come, and writes the contents of a turn when it has ended.

    `connect` returns the open connection, for the memory of blocks. `generation` changes when blocks were
    deleted: requests that were prepared before are written anew.
    """

    def __init__(self, get_config: Callable[[], Config], connect: Callable[[], sqlite3.Connection]) -> None:
        self._get_config = get_config
        self._connect = connect
        self._memory = self._build_memory()
        self._generation = 0
        self._secrets: tuple[Config | None, list[bytes]] = (None, [])
        #: Whether a provider of the configuration gets the credentials of clients.
        self._relays = False

    def _build_memory(self) -> RequestMemory:
        return RequestMemory(self._has_blocks)

    def _has_blocks(self, blocks: Mapping[int, bytes]) -> bool:
        try:
            return has_blocks(self._connect(), blocks)
        except sqlite3.Error:
            # The turn is written later, and reports the error.
            return False

    def forget(self) -> None:
        """Forget all blocks: after an error, the file may not have them."""
        self._generation += 1
        self._memory = self._build_memory()

    def note_deletion(self) -> None:
        self._generation += 1
        self._memory.note_deletion()

    def prepare(self, job: PendingBody, body: bytes) -> bytes:
        """Split a request. Returns what the request before it does not have, which is redacted."""
        chain = (job.session, job.identity.sub_agent, job.target)
        known = self._memory.match(chain, body)
        raw = body[known.start : known.end]
        job.is_grown = known.is_grown(raw)
        content = redact_content(raw, self._list_secrets(job.headers))
        new = split_request(raw, content) if known.is_first else [Segment(raw, content)][: len(raw)]
        job.segments = [*join_segments(known.head), *new, *join_segments(known.tail)]
        job.generation = self._generation
        # Another first request may have a part of the beginning only.
        kept = [*known.head, *new, *known.tail] if known.is_first else job.segments
        self._memory.remember(chain, kept, is_first=known.is_first)
        return raw

    def write(self, connection: sqlite3.Connection, tap: BodyTap) -> list[BodyRow]:
        """Write the contents of a turn."""
        pack = TurnPack()
        requests = [("client_request", 0, tap.request)]
        requests += [("upstream_request", number, call.request) for number, call in enumerate(tap.calls)]
        found = [(part, number, self._take_segments(each)) for part, number, each in requests if each]
        new = self._add_segments(connection, pack, [each for _, _, segments in found for each in segments])
        replies = list(self._compact_replies(tap))
        places = _add_replies(pack, replies)
        block, key = pack.write(connection)
        for segment, start, end in new:
            segment.ref, segment.key = BlockRef(block, start, end), key
        bodies = [
            BodyRow(part, number, [_write_list(connection, segment) for segment in segments], ())
            for part, number, segments in found
            if segments
        ]
        for (part, number, compact, pieces), (start, end) in zip(replies, places, strict=True):
            repeated = tuple(map(len, compact.repeated))
            bodies.append(BodyRow(part, number, [BlockRef(block, start, end, repeated)], pieces))
        count_uses(connection, [ref for body in bodies for ref in body.blocks])
        return bodies

    def _add_segments(
        self, connection: sqlite3.Connection, pack: TurnPack, segments: Sequence[Segment]
    ) -> list[tuple[Segment, int, int]]:
        """Write the new shared segments, and add the others to the pack. Returns their places."""
        places: list[tuple[Segment, int, int]] = []
        for segment in _list_new(segments):
            if segment.is_shared:
                block, segment.key = insert_block(connection, segment.content)
                segment.ref = BlockRef(block)
            else:
                # Known from here on: a segment of two requests is new once.
                segment.ref = BlockRef(0)
                places.append((segment, *pack.add(segment.content)))
            segment.content = b""
        return places

    def _take_segments(self, request: PendingBody) -> list[Segment]:
        segments = request.segments or []
        if segments and request.generation != self._generation:
            # The file may have lost blocks since the request came.
            raw = b"".join([segment.raw for segment in segments])
            content = redact_content(raw, self._list_secrets(request.headers))
            request.segments = segments = [Segment(raw, content)]
            request.generation = self._generation
        return segments

    def _compact_replies(self, tap: BodyTap) -> Iterator[CompactReply]:
        """The replies without secrets. Those of an upstream mostly have the texts of the client's."""
        secrets = self._list_secrets(tap.metadata.headers)
        compact, sent = CompactStream(b""), b""
        runs: Sequence[TextRun] = ()
        texts: Sequence[bytes] | None = ()
        client = tap.client
        if client is not None and client.outputs:
            found = compact_outputs(client.outputs)
            if found is None:
                pieces = client.list_pieces()
                sent = b"".join(pieces)
                found = compact_stream(sent), [len(piece) for piece in pieces]
            (compact, runs, _), lengths = found
            texts = find_clean_texts(found[0], secrets)
            if texts is None:
                sent = sent or b"".join(client.list_pieces())
                compact, runs = compact_stream(redact_texts(sent, secrets)).compact, ()
            yield CompactReply(
                "client_reply", 0, compact, _list_pieces(client.times, lengths, tap.started_at)
            )
        for number, call in enumerate(tap.calls):
            if call.pieces:
                got = b"".join(call.pieces)
                # Forwarded unchanged, or translated.
                own = compact if got == sent else redact_stream(got, secrets, runs, texts or ())
                times = _list_pieces(call.times, map(len, call.pieces), tap.started_at)
                yield CompactReply("upstream_reply", number, own, times)

    def _list_secrets(self, headers: Mapping[str, str]) -> list[bytes]:
        """The keys of the configuration, and the credential in a client's headers if a provider gets it."""
        config = self._get_config()
        if self._secrets[0] is not config:
            values = [key for provider in config.providers.values() for key in provider.keys]
            values += config.server.keys
            secrets = [value.reveal().encode() for value in values if len(value.reveal()) >= MIN_SECRET]
            self._secrets = (config, secrets)
            self._relays = any(each.uses_client_credential for each in config.providers.values())
        return [*self._secrets[1], *list_credentials(headers)] if self._relays else self._secrets[1]


def _add_replies(pack: TurnPack, replies: Sequence[CompactReply]) -> list[tuple[int, int]]:
    """The places of the replies in the pack. An upstream's reply that was forwarded is the client's."""
    places: dict[int, tuple[int, int]] = {}
    for reply in replies:
        if id(reply.compact) not in places:
            content = b"".join((*reply.compact.repeated, reply.compact.content))
            places[id(reply.compact)] = pack.add(content)
    return [places[id(reply.compact)] for reply in replies]


def _list_new(segments: Sequence[Segment]) -> Iterator[Segment]:
    """The segments that are not in the file yet, also those of lists."""
    for segment in segments:
        if segment.ref is None:
            if segment.is_list:
                yield from _list_new(segment.parts)
            else:
                yield segment


def _write_list(connection: sqlite3.Connection, segment: Segment) -> BlockRef:
    """The place of a segment whose parts are in the file. A list is written if it is new."""
    if segment.ref is None:
        block, segment.key = insert_list(
            connection, [_write_list(connection, each) for each in segment.parts]
        )
        segment.ref, segment.parts = BlockRef(block), ()
    return segment.ref


def _list_pieces(times: Iterable[float], lengths: Iterable[int], started_at: float) -> list[tuple[int, int]]:
    """The milliseconds since the beginning of the exchange and the length of each piece."""
    return list(zip([int((at - started_at) * 1000) for at in times], lengths, strict=True))
