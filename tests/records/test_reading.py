"""What is read from the records: lists, filters, sums, differences, archives."""

import asyncio
import io
import os
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.hub.errors import ConfigError
from dragoman.records.archive import read_archive, write_archive
from dragoman.records.changes import explain_changes
from dragoman.records.differences import compare, find_first_difference
from dragoman.records.filters import FLAGS, NUMBER_FIELDS, TEXT_FIELDS, Condition, InvalidFilter, parse_filter
from dragoman.records.reading import (
    RecordNotFound,
    find_session_id,
    list_sessions,
    list_turns,
    read_raw,
    read_session,
    read_turn,
    sum_turns,
)
from dragoman.records.store import COLUMNS, RECORDS_SCHEMA, delete_turns, insert_turn, open_records
from dragoman.records.stream_events import list_events
from dragoman.storage.database import connect
from tests.records.recorded_gateway import CLAUDE, RecordedGateway, ask

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=4)
    ),
    max_leaves=20,
)


def record(folder: Path) -> RecordedGateway:
    """Two sessions: one of Claude Code with a sub-agent, one of Codex."""
    recorded = RecordedGateway(folder)

    async def run() -> None:
        for words in ("one", "two"):
            await recorded.send(ask([{"role": "user", "content": words}]))
        await recorded.send(
            ask([{"role": "user", "content": "sub"}]), headers={**CLAUDE, "x-claude-code-agent-id": "a1"}
        )
        codex = {"user-agent": "codex_exec/0.166.0", "session-id": "session-2"}
        body = {"model": "gpt", "stream": True, "input": "hello"}
        await recorded.send(msgspec.json.encode(body), headers=codex, dialect="openai_responses")
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    return recorded


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedGateway:
    return record(tmp_path_factory.mktemp("records"))


def test_sessions_have_their_sums(recorded: RecordedGateway) -> None:
    claude, codex = sorted(recorded.read(list_sessions, parse_filter("")), key=lambda each: each["session"])
    assert (claude["session"], claude["agent"], claude["turns"], claude["sub_agents"]) == (
        "session-1",
        "claude-code",
        3,
        1,
    )
    assert (claude["input"], claude["output"], claude["models"]) == (36, 9, ["m"])
    assert (codex["agent"], codex["targets"]) == ("codex", ["up/gpt"])


def test_a_session_is_found_by_a_unique_beginning(recorded: RecordedGateway) -> None:
    assert recorded.read(read_session, "last")["session"] == "session-2"
    with pytest.raises(RecordNotFound, match="several sessions"):
        recorded.read(read_session, "session")
    with pytest.raises(RecordNotFound, match="no session"):
        recorded.read(read_session, "other%")


def test_the_latest_session_is_the_one_that_ended_last_not_the_one_that_was_imported_last(
    recorded: RecordedGateway,
) -> None:
    def import_earlier(connection: sqlite3.Connection) -> str:
        file = io.BytesIO()
        write_archive(connection, "session-1", file)
        file.seek(0)
        read_archive(connection, file, "copy")
        connection.execute("UPDATE turns SET started = started - 60 WHERE session = 'copy'")
        latest = find_session_id(connection, "last")
        copies = connection.execute("SELECT id FROM turns WHERE session = 'copy'").fetchall()
        delete_turns(connection, [row[0] for row in copies])
        return latest

    assert recorded.read(import_earlier) == "session-2"


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("", 4),
        ("agent:claude-code", 3),
        ("agent:claude*", 3),
        ("agent:claude", 0),
        ("sub", 1),
        ("-sub agent:claude-code", 2),
        ("not sub agent:claude-code", 2),
        ("codex or sub", 2),
        ("(codex or sub) -codex", 1),
        ("input>11 output<=3 tries=1", 4),
        ("input>12", 0),
        ("failed or cancelled", 0),
        ("finished stored", 4),
        ('session:"session-2"', 1),
        ('"session-1"', 3),
        ("100%", 0),
        ("model:_", 0),
        ("and", 0),
        ("- -", 4),
        ("a:", 0),
        ("'", 0),
        ('"or"', 0),
        ('""', 4),
        ('model:""', 0),
    ],
)
def test_a_filter_selects_turns(text: str, turns: int, recorded: RecordedGateway) -> None:
    assert len(recorded.read(list_turns, parse_filter(text))) == turns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cost>", "expected a value"),
        ('failed "codex', "a quote has no end, at '\"codex'"),
        ('agent:"codex', "a quote has no end"),
        ("failed agent:", "expected a value"),
        ("colour:red", "there is no field colour"),
        ("cost>much", "cost is a number"),
        ("agent>3", "agent is a text"),
        ("(codex", "expected )"),
        ("codex)", "a parenthesis closes"),
        ("codex or", "expected a word"),
        ("or or", "expected a word or a comparison, at 'or or': write one"),
        ("not", "expected a word"),
        ("not )", "expected a word or a comparison, at 'not )': write one"),
        ("-)", "expected a word"),
        ("(not) codex", "expected a word"),
        ("not or codex", "expected a word"),
        ("-or", "expected a word"),
        ("(", "expected a word"),
        (")", "expected a word"),
        ("()", "expected a word"),
        ('"', "a quote has no end, at '\"': end it"),
        ("cost:", "expected a value"),
        ("a:b", "there is no field a"),
        ("cost>nan", "cost is a number, at 'cost>nan': write for example cost>1"),
        ("model:\udc80", "a part is not Unicode, at '\\\\udc80': write"),
        ("(" * 50 + "x" + ")" * 50, "too many parentheses"),
        ("x" * 1001, "longer than 1000"),
    ],
)
def test_a_wrong_filter_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message.replace("(", "\\(").replace(")", "\\)")):
        parse_filter(text)


WORDS = st.sampled_from(
    [*FLAGS, "or", "not", "-", "(", ")", '"', "'", ";", "--", *(f"{name}:x" for name in TEXT_FIELDS)]
    + [f"{name}>1" for name in NUMBER_FIELDS]
) | st.text(st.characters(exclude_categories=()), max_size=8)


#: Also without spaces between the words, and with bytes of a shell that are no UTF-8.
@example("not )")
@example("-)")
@example("\udc80")
@given(
    st.builds(lambda words, space: space.join(words), st.lists(WORDS, max_size=8), st.sampled_from([" ", ""]))
)
def test_no_filter_breaks_the_query(text: str) -> None:
    connection = connect(None, RECORDS_SCHEMA)
    try:
        condition = parse_filter(text)
        assert list_turns(connection, condition) == []
    except InvalidFilter:
        return
    finally:
        connection.close()


def test_sums_are_grouped_by_name_and_time(recorded: RecordedGateway) -> None:
    (whole,) = recorded.read(sum_turns, parse_filter(""))
    assert (whole["turns"], whole["input"], whole["failed"]) == (4, 48, 0)
    by_agent = {row["name"]: row["turns"] for row in recorded.read(sum_turns, parse_filter(""), by="agent")}
    assert by_agent == {"claude-code": 3, "codex": 1}
    rows = recorded.read(sum_turns, parse_filter(""), by="model", step=86_400)
    assert {row["at"] % 86_400 for row in rows} == {0}


@given(JSON)
def test_equal_values_have_no_differences(value: object) -> None:
    assert compare(value, msgspec.json.decode(msgspec.json.encode(value))) == []


@given(JSON, JSON)
def test_values_without_differences_are_equal(before: object, after: object) -> None:
    are_equal = msgspec.json.encode(before, order="sorted") == msgspec.json.encode(after, order="sorted")
    assert (compare(before, after) == []) == are_equal


def test_an_inserted_element_does_not_change_the_others() -> None:
    before = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
    after = {"messages": [{"role": "system", "content": "s"}, *before["messages"]]}
    (only,) = compare(before, after)
    assert (only.path, only.kind) == ("messages[0]", "added")


@given(st.text(max_size=50), st.text(max_size=10), st.text(max_size=10))
def test_the_first_differing_character_is_found(shared: str, before: str, after: str) -> None:
    left, right = shared + before, shared + after
    position = find_first_difference(left, right)
    assert left[:position] == right[:position]
    assert left[position : position + 1] != right[position : position + 1] or left == right


def test_changes_of_a_translated_request_are_in_the_words_of_the_client(recorded: RecordedGateway) -> None:
    turn = recorded.read(read_turn, "session-1", 1)
    client, upstream = (
        recorded.read(read_raw, turn["id"], part) for part in ("client_request", "upstream_request")
    )
    assert client is not None
    assert upstream is not None
    values = {"client": "anthropic", "upstream": "openai_chat", "model": "m", "target": "up/m"}
    assert explain_changes(recorded.config, client, upstream, losses=[], **values).differences == []
    changed = msgspec.json.decode(upstream)
    changed["messages"][0]["content"] = "one more"
    changes = explain_changes(recorded.config, client, msgspec.json.encode(changed), losses=[], **values)
    (only,) = changes.differences
    assert (only.before, only.after, only.position) == ("one", "one more", 3)
    assert only.path.startswith("messages[0].content")


@given(st.lists(st.integers(1, 40), max_size=10), st.sampled_from([b"\n", b"\r\n"]))
def test_events_do_not_depend_on_the_pieces(sizes: list[int], end: bytes) -> None:
    content = b"".join(b'event: e%d%bdata: {"n":%d}%b%b' % (n, end, n, end, end) for n in range(6))
    pieces, left = [], len(content)
    for at, size in enumerate(sizes):
        pieces.append((at, min(size, left)))
        left -= pieces[-1][1]
    pieces.append((len(sizes), left))
    events = list_events(content, pieces)
    assert [event.data for event in events] == [{"n": number} for number in range(6)]
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_an_exported_session_is_imported_unchanged(recorded: RecordedGateway, tmp_path: Path) -> None:
    file = io.BytesIO()
    assert recorded.read(write_archive, "session-1", file) == 3
    file.seek(0)
    other = tmp_path / "records.db"
    assert open_records(other, lambda connection: read_archive(connection, file)) == ("session-1", 3)
    for number in (1, 2, 3):
        ours, theirs = (
            recorded.read(read_turn, "session-1", number),
            open_records(other, lambda connection, number=number: read_turn(connection, "last", number)),  # type: ignore[misc]  # a default in a lambda
        )
        for part in ("client_request", "upstream_request", "upstream_reply", "client_reply"):
            assert recorded.read(read_raw, ours["id"], part) == open_records(
                other,
                lambda connection, part=part, theirs=theirs: read_raw(connection, theirs["id"], part),  # type: ignore[misc]  # a default in a lambda
            )
        assert {**ours, "id": 0} == {**theirs, "id": 0} | {
            name: ours[name] for name in ours.keys() - theirs.keys()
        }
    file.seek(0)
    with pytest.raises(ConfigError, match="recorded already"):
        open_records(other, lambda connection: read_archive(connection, file))


def test_a_session_is_exported_without_its_contents(recorded: RecordedGateway) -> None:
    file = io.BytesIO()
    recorded.read(write_archive, "session-1", file, with_contents=False)
    file.seek(0)

    def work(connection: sqlite3.Connection) -> tuple[int, int]:
        read_archive(connection, file, "copy")
        (blocks,) = connection.execute("SELECT COUNT(*) FROM blocks").fetchone()
        return blocks, len(list_turns(connection, Condition("session = 'copy'")))

    connection = connect(None, RECORDS_SCHEMA)
    assert work(connection) == (0, 3)
    connection.close()


def write_lines(*lines: object) -> io.BytesIO:
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return io.BytesIO(zstandard.ZstdCompressor().compress(text))


@pytest.fixture(scope="module")
def archived(recorded: RecordedGateway) -> list[dict[str, Any]]:
    """The head and the first turn of an exported session without contents."""
    file = io.BytesIO()
    recorded.read(write_archive, "session-1", file, with_contents=False)
    file.seek(0)
    text = zstandard.ZstdDecompressor().stream_reader(file).read()
    return [msgspec.json.decode(line) for line in text.splitlines()[:2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row": {"foo": 1}}, "without a valid request"),
        ({"row": {"number": "one\x1b[2J"}}, "without a valid number"),
        ({"row": {"model": None}}, "without a valid model"),
        ({"details": {"losses": None}}, "without valid losses"),
        ({"details": {"losses": [{"path": 1, "reason": "x"}]}}, "without valid losses"),
        ({"bodies": [{"part": "client_request", "round": 0, "blocks": [7]}]}, "lacks a block"),
    ],
    ids=["columns", "type", "null", "details", "loss", "block"],
)
def test_an_archive_with_an_invalid_turn_is_refused(
    change: dict[str, Any], message: str, archived: list[dict[str, Any]]
) -> None:
    head, turn = archived
    changed = {**turn, **change}
    for name, values in change.items():
        if isinstance(values, dict) and "foo" not in values:
            changed[name] = {**turn[name], **values}
    connection = connect(None, RECORDS_SCHEMA)
    with pytest.raises(ConfigError, match=message):
        read_archive(connection, write_lines(head, changed))
    with pytest.raises(ConfigError, match="cannot be decoded"):
        read_archive(connection, write_lines(head, {"block": 1, "base64": "!!!!!"}), "other")
    assert read_archive(connection, write_lines(head, turn), "valid") == ("valid", 1)
    connection.close()


def test_an_archive_that_was_cut_off_is_refused(archived: list[dict[str, Any]]) -> None:
    head, turn = archived
    # Zstandard decompresses 128 KiB at once: a shorter file has no content without its end.
    text = os.urandom(300_000).hex()
    whole = write_lines(head, turn, {"block": 1, "text": text}, {"block": 2, "text": text[:9]}).getvalue()
    connection = connect(None, RECORDS_SCHEMA)
    for length in (len(whole) - 1, len(whole) * 2 // 3, 20):
        with pytest.raises(ConfigError, match="not complete"):
            read_archive(connection, io.BytesIO(whole[:length]), f"cut {length}")
    assert read_archive(connection, io.BytesIO(whole)) == ("session-1", 1)
    connection.close()


def test_numbers_that_no_turn_can_have_are_not_found(recorded: RecordedGateway) -> None:
    for number in (0, 10**30, -(10**30)):
        with pytest.raises(RecordNotFound, match="has no turn"):
            recorded.read(read_turn, "session-1", number)


def test_lists_of_a_session_have_whole_names_and_no_empty_ones() -> None:
    connection = connect(None, RECORDS_SCHEMA)
    row = {name: "" if "TEXT" in kind else 0 for name, kind in COLUMNS.items()} | {"session": "s"}
    for number, (model, target) in enumerate((("a,b", ""), ("a,b", "x/y"), ("c", "x/y")), 1):
        insert_turn(connection, {**row, "number": number, "model": model, "target": target}, b"{}", ())
    found = read_session(connection, "s")
    assert (found["models"], found["targets"]) == (["a,b", "c"], ["x/y"])
    connection.close()


@given(st.binary(max_size=200))
def test_a_file_that_is_no_archive_is_refused(data: bytes) -> None:
    connection = connect(None, RECORDS_SCHEMA)
    try:
        with pytest.raises(ConfigError):
            read_archive(connection, io.BytesIO(data))
    finally:
        connection.close()
