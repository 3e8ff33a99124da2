"""The diagnosis of the prompt cache: where prompts differ, who changed them, and what that cost."""

import asyncio
import sqlite3
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman import translate_request
from dragoman.config.provider import TargetName
from dragoman.records import reading, turn_writer
from dragoman.records.cache import CacheReport, MissCause, diagnose_session, diagnose_turn
from dragoman.records.prompts import find_break, list_parts
from dragoman.records.taps import BodyTap
from dragoman.records.turn_writer import TurnWriter
from tests.cli.run_command import dragoman
from tests.exchange.fakes import Script
from tests.exchange.sample_replies import CHAT_HEAD, CHAT_STREAM, data
from tests.records.recorded_gateway import RecordedGateway, ask

TEXT = st.text(min_size=1, max_size=30)
BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant"]),
        "content": TEXT | st.lists(BLOCK, min_size=1, max_size=3),
    }
)
TOOL = st.fixed_dictionaries({"name": TEXT, "description": TEXT})
REQUEST = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        "messages": st.lists(MESSAGE, min_size=1, max_size=5),
        "system": TEXT | st.lists(BLOCK, min_size=1, max_size=2),
        "tools": st.lists(TOOL, max_size=3),
    }
)


def write_at(request: Any, path: str, text: str) -> None:
    """Put a text at a path such as `messages[0].content[1].text`."""
    *parents, last = path.replace("[", ".").replace("]", "").split(".")
    for name in parents:
        request = request[int(name) if name.isdecimal() else name]
    request[int(last) if last.isdecimal() else last] = text


def count_common(before: Any, after: Any) -> int:
    """How many elements two texts or lists begin with alike."""
    pairs = zip(before, after, strict=False)
    return next((n for n, (one, two) in enumerate(pairs) if one != two), min(len(before), len(after)))


@pytest.mark.parametrize("edit", ["replace", "insert", "delete"])
@given(REQUEST, st.lists(MESSAGE, max_size=3), st.data())
def test_any_single_edit_of_a_prefix_is_located_exactly(
    edit: str, before: dict[str, Any], more: list[object], draw: st.DataObject
) -> None:
    after = deepcopy(before)
    edited = draw.draw(st.sampled_from([part for part in list_parts(before) if part.text]))
    position = draw.draw(st.integers(0, len(edited.text) - (edit != "insert")))
    inserted = draw.draw(st.text(min_size=1, max_size=3)) if edit != "delete" else ""
    removed = draw.draw(st.integers(1, 3)) if edit != "insert" else 0
    text = edited.text[:position] + inserted + edited.text[position + removed :]
    assume(text != edited.text)
    write_at(after, edited.path, text)
    after["messages"] = [*after["messages"], *more]
    found = find_break(list_parts(before), list_parts(after))
    assert found is not None
    # Of equal characters in a row, any one may be the one that was inserted or removed.
    first = count_common(edited.text, text)
    assert (found.path, found.position) == (edited.path, first)
    assert (found.before, found.after) == (edited.text[first:][:60], text[first:][:60])


def list_units(values: Any) -> Iterator[tuple[int, str, str]]:
    """What a list of messages, blocks or tools consists of: the index of each, a name and a text."""
    for index, value in enumerate(values):
        for name, each in value.items():
            if name == "content":
                blocks = [{"text": each}] if isinstance(each, str) else each
                yield from (
                    (index, f"content {number}", block["text"]) for number, block in enumerate(blocks)
                )
            elif name != "type":
                yield index, name, each


@pytest.mark.parametrize("edit", ["replace", "insert", "delete"])
@pytest.mark.parametrize("member", ["tools", "system", "messages"])
@given(REQUEST, st.lists(MESSAGE, max_size=2), st.data())
def test_a_message_block_or_tool_that_comes_or_goes_is_located_exactly(
    member: str, edit: str, before: dict[str, Any], more: list[object], draw: st.DataObject
) -> None:
    assume(isinstance(before[member], list) and (before[member] or edit == "insert"))
    values = list(before[member])
    place = draw.draw(st.integers(0, len(values) - (edit != "insert")))
    new = {"tools": TOOL, "system": BLOCK, "messages": MESSAGE}[member]
    values[place : place + (edit != "insert")] = [] if edit == "delete" else [draw.draw(new)]
    assume(values or member != "messages")
    after = {**before, member: values}
    after["messages"] = [*after["messages"], *more]
    found = find_break(list_parts(before), list_parts(after))
    old, now = (list(list_units(request[member])) for request in (before, after))
    first = count_common(old, now)
    if first == len(old) == len(now) or (member == "messages" and first in (len(old), len(now))):
        # The prompt is continued, or ends earlier.
        assert found is None
    elif first < len(now):
        assert found is not None
        assert found.path.startswith(f"{member}[{now[first][0]}]")
    else:
        # The last one is gone: what comes after the list stands at its place.
        assert found is not None
        assert not found.path.startswith(f"{member}[") or not values


@given(REQUEST, st.lists(MESSAGE, max_size=3), st.data())
def test_a_continued_prompt_has_no_break_wherever_the_cache_marks_are(
    before: dict[str, Any], more: list[object], draw: st.DataObject
) -> None:
    after = deepcopy(before)
    after["messages"] = [*after["messages"], *more]
    for request in (before, after):
        for message in request["messages"]:
            if isinstance(message["content"], list) and draw.draw(st.booleans()):
                message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    assert find_break(list_parts(before), list_parts(after)) is None


@given(TEXT, TEXT)
def test_a_text_and_a_list_of_one_text_are_the_same_prompt(text: str, answer: str) -> None:
    marked = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    before = {"messages": [{"role": "user", "content": marked}]}
    after = {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]}
    assert find_break(list_parts(before), list_parts(after)) is None


@given(REQUEST, st.data())
def test_another_order_of_the_tools_is_a_break_at_the_first_tool_that_moved(
    before: dict[str, Any], draw: st.DataObject
) -> None:
    order = draw.draw(st.permutations(before["tools"]))
    # Two tools with the same members in another order are equal, but not for a provider.
    places = enumerate(zip(before["tools"], order, strict=True))
    first = next((n for n, (one, other) in places if str(one) != str(other)), None)
    found = find_break(list_parts(before), list_parts({**before, "tools": order}))
    if first is None:
        assert found is None
    else:
        assert found is not None
        assert found.path.startswith(f"tools[{first}]")


def stream(prompt: int, cached: int) -> Script:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return Script(
        pieces=(*CHAT_STREAM[:4], data({**CHAT_HEAD, "choices": [], "usage": usage}), CHAT_STREAM[-1])
    )


def diagnose(
    folder: Path, bodies: list[bytes], usages: list[tuple[int, int]], times: list[float]
) -> tuple[RecordedGateway, list[CacheReport]]:
    clock = iter(times)
    recorded = RecordedGateway(folder, *(stream(*usage) for usage in usages), clock=lambda: next(clock))
    recorded.gateway.clock = lambda: 1_800_000_000.0

    async def run() -> None:
        for body in bodies:
            await recorded.send(body)
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    return recorded, recorded.read(diagnose_session, "last")


FIRST = [{"role": "user", "content": "read the file"}]
SECOND = [*FIRST, {"role": "assistant", "content": "done"}, {"role": "user", "content": "and the other"}]


@pytest.mark.parametrize(
    ("second", "cached", "gap", "cause"),
    [
        (ask(SECOND, system="it is Monday"), 4900, 10, "hit"),
        (ask(SECOND, system="it is Monday"), 0, 10, "provider"),
        (ask(SECOND, system="it is Monday"), 0, 900, "expiry"),
        (ask(SECOND, system="it is Tuesday"), 0, 10, "agent"),
        (ask(SECOND, system="it is Monday", model="other"), 0, 10, "agent"),
    ],
)
def test_a_miss_has_a_cause(second: bytes, cached: int, gap: float, cause: MissCause, tmp_path: Path) -> None:
    first = ask(FIRST, system="it is Monday")
    _, reports = diagnose(tmp_path, [first, second], [(5000, 0), (5200, cached)], [1000.0, 1000.0 + gap])
    assert [report.cause for report in reports] == ["first", cause]
    assert reports[1].previous == 1
    assert reports[1].uncached == 5200 - cached
    if b"Tuesday" in second:
        found = reports[1].upstream_break
        assert found is not None
        assert (found.path, found.position, found.after) == ("messages[0].content", 6, "Tuesday")
        assert reports[1].lost == 5000


def test_a_side_request_between_two_turns_does_not_confuse_the_diagnosis(tmp_path: Path) -> None:
    side = ask([{"role": "user", "content": "a title, please"}], system="You write titles of conversations.")
    bodies = [ask(FIRST, system="s" * 99), side, ask(SECOND, system="s" * 99)]
    _, reports = diagnose(tmp_path, bodies, [(5000, 0), (50, 0), (5200, 4900)], [1.0, 2.0, 3.0])
    assert [(report.previous, report.cause) for report in reports] == [(0, "first"), (0, "short"), (1, "hit")]


def test_a_session_with_many_turns_is_diagnosed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_ROWS", 2)
    bodies = [ask([*FIRST, *[{"role": "user", "content": "x"}] * each], system="s" * 99) for each in range(5)]
    _, reports = diagnose(tmp_path, bodies, [(5000, 4900)] * 5, [float(each) for each in range(5)])
    assert [report.number for report in reports] == [1, 2, 3, 4, 5]


def test_a_change_by_the_gateway_is_reported_in_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = RecordedGateway(tmp_path, stream(5000, 0), stream(5200, 0))
    note = BodyTap.note_request

    def note_changed(tap: BodyTap, target: TargetName, dialect: str, body: bytes) -> int:
        return note(tap, target, dialect, body.replace(b"read the file", b"Read the file"))

    async def run() -> None:
        await recorded.send(ask(FIRST, system="same"))
        monkeypatch.setattr(BodyTap, "note_request", note_changed)
        await recorded.send(ask(SECOND, system="same"))
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    (_, report) = recorded.read(diagnose_session, "last")
    assert report.cause == "gateway"
    assert report.client_break is None
    status = recorded.recorder.status
    assert status.broken_prefixes == 1
    assert "messages[1].content, character 0" in status.last_broken_prefix


def test_prompts_are_compared_only_if_the_gateway_can_have_changed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To compare whole prompts takes long, and some servers never report that a prompt was cached."""
    clock = [0.0]
    monkeypatch.setattr(turn_writer, "monotonic", lambda: clock[0])
    examined = []

    def diagnose_slowly(connection: sqlite3.Connection, session: str, number: int) -> CacheReport | None:
        examined.append(number)
        clock[0] += 0.1
        return diagnose_turn(connection, session, number)

    monkeypatch.setattr(turn_writer, "diagnose_turn", diagnose_slowly)
    recorded = RecordedGateway(tmp_path, stream(5000, 0))
    seen_idle = Event()
    tidy_up = TurnWriter.tidy_up

    def note_idle(writer: TurnWriter, *, is_idle: bool) -> None:
        tidy_up(writer, is_idle=is_idle)
        if is_idle:
            seen_idle.set()

    monkeypatch.setattr(TurnWriter, "tidy_up", note_idle)
    pause = 0.1 * turn_writer.DIAGNOSIS_PAUSE + 0.01

    async def run() -> None:
        conversation = [*FIRST]
        steps = [(0.0, ""), (9.0, ""), (9.0, "other"), (0.0, "others"), (pause, "else"), (9.0, "else")]
        for wait, system in steps:
            clock[0] += wait
            conversation += SECOND[1:]
            seen_idle.clear()
            await recorded.send(ask(conversation, system=system + "s" * 999))
            await asyncio.to_thread(seen_idle.wait)
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    # The second and the last turn only got longer, and the fourth came too soon after another one.
    assert examined == [3, 5]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
@given(
    st.lists(MESSAGE.filter(lambda message: bool(str(message["content"]).strip())), min_size=1, max_size=4),
    TEXT,
)
def test_the_gateway_breaks_no_prefix_that_the_client_keeps(
    dialect: str, messages: list[dict[str, Any]], system: str
) -> None:
    texts: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        texts.append({**message, "role": "assistant" if number % 2 else "user"})
    longer = [*texts, {"role": "user" if len(texts) % 2 == 0 else "assistant", "content": "more"}]
    if longer[-1]["role"] == "assistant":
        longer.append({"role": "user", "content": "go on"})
    parts = [
        list_parts(
            msgspec.json.decode(
                msgspec.json.encode(
                    translate_request(ask(turns, system=system), source="anthropic", target=dialect).body
                )
            )
        )
        for turns in (texts if texts[-1]["role"] == "user" else texts[:-1], longer)
    ]
    assert find_break(*parts) is None


def test_the_command_explains_a_session(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    bodies = [ask(FIRST, system="it is Monday"), ask(SECOND, system="it is Tuesday")]
    diagnose(state, bodies, [(5000, 0), (5200, 0)], [1.0, 2.0])
    (tmp_path / "dragoman.toml").write_text(f'[server]\nstate = "{state}"\n', "utf-8")
    shown = dragoman(tmp_path, "cache", "last")
    assert shown.code == 0, shown.err
    assert "the agent changed the prompt" in shown.out
    assert "character 6: 'Monday' → 'Tuesday'" in shown.out
    assert "lost: 5,000 tokens" in shown.out
