"""Tool calls are put together whatever the server makes of their identity."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.openai_chat import calls as assembling
from dragoman.hub.blocks import Text, Tool, ToolCall
from dragoman.hub.events import ArgumentsDelta, BlockClosed, BlockOpened, ReplyFailed, ReplyFinished
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.seal import Seal
from tests.dialects.openai_chat.replies import (
    DONE,
    a_request,
    call,
    calls,
    calls_of,
    chunk,
    events_of,
    finish,
    kinds_of,
    reply_of,
)

END = finish("tool_calls") + DONE


def list_calls(found: list[ToolCall]) -> list[tuple[str, str, str]]:
    return [(each.id, each.name, each.arguments) for each in found]


@pytest.mark.rule("R48", "R60")
def test_a_call_is_the_sum_of_its_fragments() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments="")),
        calls(call(0, arguments='{"p":')),
        calls(call(0, arguments='"x"}')),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":"x"}')]


@pytest.mark.rule("P1", "P3")
def test_the_arguments_of_the_first_chunk_are_kept() -> None:
    assert list_calls(calls_of(calls(call(0, id="a", name="Read", arguments='{"p":1}')), END)) == [
        ("a", "Read", '{"p":1}')
    ]


@pytest.mark.rule("R48", "P63")
def test_an_id_and_a_name_that_come_with_every_fragment_are_one_call() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments="")),
        calls(call(0, id="a", name="Read", arguments='{"p":')),
        calls(call(0, id="a", name="Read", arguments='{"p":1}}')),
        calls(call(0, id="a", name="Read", arguments="")),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":{"p":1}}')]


@pytest.mark.rule("R48")
def test_a_whole_call_sent_again_after_its_fragments_is_not_doubled() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments="")),
        calls(call(0, arguments='{"p":')),
        calls(call(0, arguments="1}")),
        calls(call(0, id="a", name="Read", arguments='{"p":1}')),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}')]


@pytest.mark.rule("R48")
def test_a_whole_call_that_replaces_its_own_beginning_is_not_doubled() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments='{"p":')),
        calls(call(0, id="a", name="Read", arguments='{"p":1}')),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}')]


@pytest.mark.rule("R48", "P4")
def test_two_ids_on_one_index_are_two_calls() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments='{"p":1}')),
        calls(call(0, id="b", name="Read", arguments='{"p":2}')),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}'), ("b", "Read", '{"p":2}')]


@pytest.mark.rule("R48")
def test_a_fragment_with_the_id_of_an_earlier_call_on_its_index_goes_to_that_call() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments='{"p":')),
        calls(call(0, id="b", name="Read", arguments='{"p":2}')),
        calls(call(0, id="a", arguments="1}")),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}'), ("b", "Read", '{"p":2}')]


@pytest.mark.rule("R48", "H17")
def test_calls_with_the_same_id_at_two_indexes_get_ids_of_their_own() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments="{}"), call(1, id="a", name="Read", arguments="{}")),
        END,
    )
    assert found[0].id == "a"
    assert found[1].id.startswith("call_")


@pytest.mark.rule("R48")
def test_a_name_that_comes_after_the_id_is_waited_for() -> None:
    found = calls_of(
        calls(call(0, id="a")),
        calls(call(0, arguments='{"p":')),
        calls(call(0, name="Read", arguments="1}")),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}')]


@pytest.mark.rule("R48")
def test_a_name_in_pieces_is_joined() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Re")),
        calls(call(0, name="ad", arguments="")),
        calls(call(0, arguments="{}")),
        END,
    )
    assert list_calls(found) == [("a", "Read", "{}")]


@pytest.mark.rule("R48")
def test_a_name_that_grows_with_each_chunk_is_not_appended() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Re")),
        calls(call(0, id="a", name="Read")),
        calls(call(0, arguments="{}")),
        END,
    )
    assert [each.name for each in found] == ["Read"]


@pytest.mark.rule("R48", "C17")
def test_a_declared_name_opens_its_call_before_any_arguments() -> None:
    request = a_request(tools=(Tool(name="Read"), Tool(name="Write")))
    events = events_of(calls(call(0, id="a", name="Read", arguments="")), request=request)
    assert isinstance(events[1], BlockOpened)


@pytest.mark.rule("R48")
def test_a_declared_name_that_begins_another_waits_for_what_follows() -> None:
    request = a_request(tools=(Tool(name="Read"), Tool(name="ReadMany")))
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments="")),
        calls(call(0, name="Many")),
        calls(call(0, arguments="{}")),
        END,
        request=request,
    )
    assert [each.name for each in found] == ["ReadMany"]


@pytest.mark.rule("R48")
def test_a_request_without_tools_makes_no_name_certain() -> None:
    found = calls_of(calls(call(0, id="a", name="Read", arguments="{}")), END, request=a_request())
    assert list_calls(found) == [("a", "Read", "{}")]


@pytest.mark.rule("R48")
def test_a_missing_id_is_made_up() -> None:
    found = calls_of(calls(call(0, name="Read", arguments="{}"), call(1, name="Read", arguments="{}")), END)
    assert all(each.id.startswith("call_") for each in found)
    assert found[0].id != found[1].id


@pytest.mark.rule("R48")
def test_an_id_that_comes_late_is_not_another_call() -> None:
    found = calls_of(
        calls(call(0, name="Read", arguments='{"p":')),
        calls(call(0, id="a", arguments="1}")),
        END,
    )
    assert [each.arguments for each in found] == ['{"p":1}']


@pytest.mark.rule("R48")
def test_without_an_index_the_id_reports_the_call() -> None:
    found = calls_of(
        calls(call(None, id="a", name="Read", arguments='{"p":')),
        calls(call(None, id="b", name="Bash", arguments='{"c":')),
        calls(call(None, id="a", arguments="1}")),
        calls(call(None, id="b", arguments="2}")),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}'), ("b", "Bash", '{"c":2}')]


@pytest.mark.rule("R48")
def test_without_index_and_id_the_place_in_the_list_reports_the_call() -> None:
    found = calls_of(
        calls(call(None, id="a", name="Read", arguments=""), call(None, id="b", name="Bash", arguments="")),
        calls(call(None, arguments='{"p":1}'), call(None, arguments='{"c":2}')),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}'), ("b", "Bash", '{"c":2}')]


@pytest.mark.rule("R48")
def test_a_fragment_that_is_empty_belongs_to_the_last_call() -> None:
    found = calls_of(
        calls(call(3, id="a", name="Read", arguments="")),
        calls(call(None, arguments='{"p":')),
        calls(call(None, arguments="1}")),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}')]


@pytest.mark.rule("R48")
def test_whole_calls_without_index_and_id_are_reported_apart() -> None:
    found = calls_of(
        calls({"function": {"name": "Read", "arguments": '{"p":1}'}}),
        calls({"function": {"name": "Read", "arguments": '{"p":2}'}}),
        END,
    )
    assert [each.arguments for each in found] == ['{"p":1}', '{"p":2}']


@pytest.mark.rule("R48")
def test_a_call_without_arguments_ends_where_a_whole_one_begins() -> None:
    found = calls_of(
        calls({"function": {"name": "Now", "arguments": ""}}),
        calls({"function": {"name": "Read", "arguments": '{"p":2}'}}),
        END,
    )
    assert [(each.name, each.arguments) for each in found] == [("Now", ""), ("Read", '{"p":2}')]


@pytest.mark.rule("R48", "H12")
def test_arguments_that_are_an_object_become_text() -> None:
    found = calls_of(calls(call(0, id="a", name="Read", arguments={"z": 1, "a": "é"})), END)
    assert found[0].arguments == '{"z":1,"a":"é"}'


@pytest.mark.rule("R48")
def test_a_call_without_the_wrapper_is_understood() -> None:
    found = calls_of(calls({"index": 0, "id": "a", "name": "Read", "arguments": "{}"}), END)
    assert list_calls(found) == [("a", "Read", "{}")]


def test_ghosts_are_no_calls() -> None:
    losses = Losses()
    found = reply_of(calls({}), calls(call(0, id="", arguments="")), finish(), DONE, losses=losses)
    assert found.blocks == ()
    assert len(losses) == 0


def test_a_call_that_never_gets_a_name_is_a_loss() -> None:
    losses = Losses()
    assert calls_of(calls(call(0, id="a", arguments='{"p":1}')), END, losses=losses) == []
    assert [loss.reason for loss in losses] == ["a tool call without a name was dropped"]


@pytest.mark.rule("R53", "H71")
def test_interleaved_fragments_stay_with_their_calls() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments="")),
        calls(call(1, id="b", name="Bash", arguments="")),
        calls(call(0, arguments='{"p"')),
        calls(call(1, arguments='{"c"')),
        calls(call(0, arguments=":1}")),
        calls(call(1, arguments=":2}")),
        END,
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}'), ("b", "Bash", '{"c":2}')]


@pytest.mark.rule("P20")
def test_calls_in_other_choices_belong_to_the_answer() -> None:
    second = {"index": 1, "delta": {"tool_calls": [call(0, id="a", name="Read", arguments="{}")]}}
    reply = reply_of(
        chunk({"role": "assistant", "content": "Look."}),
        chunk(second["delta"], index=1),
        chunk({}, finish_reason="stop"),
        chunk({}, index=1, finish_reason="tool_calls"),
        DONE,
    )
    assert kinds_of(reply.blocks) == ["Text", "ToolCall"]


@pytest.mark.rule("P20")
def test_calls_with_the_same_index_in_two_choices_are_two_calls() -> None:
    found = calls_of(
        calls(call(0, id="a", name="Read", arguments='{"p":1}')),
        chunk({"tool_calls": [call(0, id="b", name="Bash", arguments="{}")]}, index=1),
        END,
        request=a_request(),
    )
    assert [each.id for each in found] == ["a", "b"]


@pytest.mark.rule("C7", "R52")
def test_a_whole_call_ends_when_the_next_block_begins() -> None:
    events = events_of(
        calls(call(0, id="a", name="Read", arguments='{"p":1}')),
        calls(call(1, id="b", name="Bash", arguments='{"c":')),
        calls(call(1, arguments="2}")),
    )
    second = next(n for n, e in enumerate(events) if isinstance(e, BlockOpened) and e.index == 1)
    assert BlockClosed(0) in events[:second]


@pytest.mark.rule("R53")
def test_a_call_that_is_not_whole_stays_open_when_the_next_begins() -> None:
    events = events_of(
        calls(call(0, id="a", name="Read", arguments='{"p":')),
        calls(call(1, id="b", name="Bash", arguments="{}")),
        calls(call(0, arguments="1}")),
        END,
    )
    assert ArgumentsDelta(0, "1}") in events


@pytest.mark.rule("R57", "R49")
def test_text_after_a_call_is_a_block_of_its_own() -> None:
    reply = reply_of(
        chunk({"content": "a"}),
        calls(call(0, id="x", name="Read", arguments="{}")),
        chunk({"content": "b"}),
        END,
    )
    assert kinds_of(reply.blocks) == ["Text", "ToolCall", "Text"]
    assert reply.blocks[2] == Text(text="b")


def test_a_call_held_for_its_name_goes_before_the_text_that_follows() -> None:
    reply = reply_of(
        calls(call(0, id="x", name="Now", arguments="")), chunk({"content": "then"}), finish(), DONE
    )
    assert kinds_of(reply.blocks) == ["ToolCall", "Text"]


@pytest.mark.rule("R55")
def test_the_old_function_call_is_a_call() -> None:
    found = calls_of(
        chunk({"function_call": {"name": "Read", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"p":1}'}}),
        finish("function_call"),
        DONE,
    )
    assert [(each.name, each.arguments, each.form) for each in found] == [
        ("Read", '{"p":1}', "function_call")
    ]


def test_a_custom_call_carries_free_text() -> None:
    found = calls_of(
        calls({"index": 0, "id": "a", "type": "custom", "custom": {"name": "patch", "input": ""}}),
        calls({"index": 0, "custom": {"input": "*** Begin"}}),
        calls({"index": 0, "custom": {"input": " {"}}),
        END,
    )
    assert [(each.kind, each.arguments) for each in found] == [("custom", "*** Begin {")]


@pytest.mark.rule("H6", "P42")
def test_googles_signature_becomes_the_seal_of_its_call() -> None:
    entry = call(0, id="a", name="Read", arguments="{}")
    entry["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    assert calls_of(calls(entry), END)[0].seal == Seal("openai_chat", "m", "c2ln")


def test_a_signature_that_comes_after_the_call_has_opened_still_seals_it() -> None:
    entry = call(0, arguments="")
    entry["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    found = calls_of(calls(call(0, id="a", name="Read", arguments="{}")), calls(entry), END)
    assert found[0].seal is not None


@pytest.mark.rule("G1")
@pytest.mark.parametrize("more", ['{"a": 1}', ': "b"}', "more"])
def test_arguments_behind_a_closed_call_fail_the_reply(more: str) -> None:
    begun = [calls(call(0, id="a", name="Read", arguments='{"a": 1}')), chunk({"content": "x"})]
    assert isinstance(events_of(*begun, calls(call(0, arguments=" \n")), END)[-1], ReplyFinished)
    failed = events_of(*begun, calls(call(0, arguments=more)), END)[-1]
    assert isinstance(failed, ReplyFailed)
    assert "more arguments follow a complete tool call" in failed.failure.message


def test_very_long_arguments_are_exact() -> None:
    text = '{"a":"' + "x" * (2 * assembling.WATCHED) + '"}'
    pieces = [text[start : start + 50_000] for start in range(0, len(text), 50_000)]
    found = calls_of(
        calls(call(0, id="a", name="Write", arguments="")),
        *(calls(call(0, arguments=piece)) for piece in pieces),
        calls(call(1, id="b", name="Read", arguments="{}")),
        END,
    )
    assert [each.arguments for each in found] == [text, "{}"]


def test_calls_without_names_cannot_fill_the_memory() -> None:
    piece = calls(call(0, id="a", arguments="x" * 1024 * 1024))
    events = events_of(*([piece] * (assembling.HELD // (1024 * 1024) + 1)))
    assert isinstance(events[-1], ReplyFailed)


def test_more_calls_than_a_reply_may_have_end_it() -> None:
    many = [
        calls(*(call(start + n, id=f"c{start + n}") for n in range(500))) for start in range(0, 10_500, 500)
    ]
    events = events_of(*many)
    assert isinstance(events[-1], ReplyFailed)


@given(cuts=st.lists(st.integers(0, 40), max_size=6), order=st.lists(st.booleans(), max_size=12))
def test_however_two_calls_are_cut_and_mixed_their_arguments_are_exact(
    cuts: list[int], order: list[bool]
) -> None:
    texts = ['{"path":"a \\"b\\" {","n":[1,{"x":null}]}', '{"command":"echo }{","deep":{"a":{"b":{}}}}']
    pieces = [_cut(text, cuts) for text in texts]
    frames = [calls(call(n, id=f"c{n}", name=f"tool_{n}", arguments="")) for n in (0, 1)]
    queues = [list(pieces[0]), list(pieces[1])]
    for first in order:
        queue = queues[0 if first else 1]
        if queue:
            frames.append(calls(call(0 if first else 1, arguments=queue.pop(0))))
    for n, queue in enumerate(queues):
        frames += [calls(call(n, arguments=piece)) for piece in queue]
    assert [each.arguments for each in calls_of(*frames, END)] == texts


def _cut(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[a:b] for a, b in pairwise(edges)]


def mixed(request: Request | None, *entries: object) -> list[ToolCall]:
    """The calls of a stream with one entry of `tool_calls` in each chunk."""
    return calls_of(*(calls(entry) for entry in entries), END, request=request)


#: With a request, the name of its tool is certain and opens a call at once.
REQUESTS = {
    "without a request": None,
    "with a request": a_request(tools=(Tool(name="Read"), Tool(name="Write"))),
}


@pytest.mark.rule("F9")
@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("late", range(1, 5))
def test_an_id_that_comes_before_the_call_is_closed_is_the_servers(late: int, request_name: str) -> None:
    fragments = [
        call(0, name="Read"),
        call(0, arguments='{"p"'),
        call(0, arguments=":1"),
        call(0, arguments="}"),
    ]
    fragments.insert(late, call(0, id="a"))
    found = mixed(REQUESTS[request_name], *fragments, call(1, id="b", name="Write", arguments="{}"))
    assert list_calls(found) == [("a", "Read", '{"p":1}'), ("b", "Write", "{}")]


@pytest.mark.rule("F9")
@pytest.mark.parametrize("request_name", REQUESTS)
def test_an_id_that_comes_after_the_next_call_has_begun_is_still_the_servers(request_name: str) -> None:
    found = mixed(
        REQUESTS[request_name],
        call(0, name="Read", arguments='{"p"'),
        call(1, name="Write", id="b", arguments='{"q"'),
        call(0, id="a"),
        call(1, arguments=":2}"),
        call(0, arguments=":1}"),
    )
    assert list_calls(found) == [("a", "Read", '{"p":1}'), ("b", "Write", '{"q":2}')]


@pytest.mark.rule("F9")
@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_calls_go_out_in_the_order_of_their_indexes(order: tuple[int, ...], request_name: str) -> None:
    starts = [call(index, id=f"id{index}", name="Read") for index in order]
    arguments = [call(index, arguments=f'{{"p":{index}}}') for index in order]
    found = mixed(REQUESTS[request_name], *starts, *arguments)
    assert list_calls(found) == [(f"id{index}", "Read", f'{{"p":{index}}}') for index in range(3)]


@pytest.mark.rule("F9")
def test_calls_in_one_chunk_go_out_in_the_order_of_their_indexes() -> None:
    entries = [call(index, id=f"id{index}", name="Read", arguments="{}") for index in (2, 0, 1)]
    assert [each.id for each in calls_of(calls(*entries), END)] == ["id0", "id1", "id2"]


@pytest.mark.rule("F9")
def test_a_server_that_counts_from_one_or_names_no_ids_gets_its_calls_through() -> None:
    found = mixed(None, *(call(index, name="Read", arguments=f'{{"p":{index}}}') for index in (1, 2, 4)))
    assert [each.arguments for each in found] == ['{"p":1}', '{"p":2}', '{"p":4}']
    assert len({each.id for each in found}) == 3


@pytest.mark.rule("F9")
def test_a_call_that_waits_for_its_id_goes_before_the_text_that_follows() -> None:
    blocks = reply_of(calls(call(0, name="Read", arguments="{}")), chunk({"content": "Done."}), END).blocks
    assert [type(block) for block in blocks] == [ToolCall, Text]


@pytest.mark.rule("F9")
def test_a_long_call_without_an_id_is_sent_when_too_much_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembling, "HELD", 100)
    found = mixed(None, call(0, name="Read", arguments='{"p":"'), call(0, arguments="x" * 200 + '"}'))
    assert [len(each.arguments) for each in found] == [208]
