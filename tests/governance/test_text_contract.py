"""A model without function calling gets its tools described in text, and the harvest reads its calls."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.governance.harvest import HarvestStage
from dragoman.governance.settings import CONTRACT_FAMILY
from dragoman.governance.text_contract import apply_text_contract, write_call
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Media, Text, ToolCall, ToolResult
from dragoman.hub.events import ReplyEvent, ReplyFinished
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from dragoman.hub.request import Request, ToolChoice
from tests.dialects.strategies import json_objects
from tests.fit.building import build_message, call, function, request, result
from tests.fit.reply.running import block, calls_in, reply_of, through
from tests.governance.running import RecordedInterventions

READ = function("Read", description="Reads a file.", schema={"type": "object", "properties": {"path": {}}})


def system_text(asked: Request) -> str:
    first = apply_text_contract(asked).messages[0]
    assert first.role == "system"
    (text,) = first.blocks
    assert isinstance(text, Text)
    return text.text


@pytest.mark.rule("R18", "C6", "R89")
def test_a_request_without_tools_stays_the_very_same() -> None:
    asked = request(build_message("system", "Be kind."), build_message("user", "hi"))
    assert apply_text_contract(asked) is asked


def test_tools_are_reported_in_words_and_nowhere_else() -> None:
    asked = request(
        build_message("user", "hi"), tools=(READ,), tool_choice=ToolChoice(mode="auto"), parallel_calls=True
    )
    after = apply_text_contract(asked)
    assert (after.tools, after.tool_choice, after.parallel_calls) == ((), None, None)
    (line,) = (line for line in system_text(asked).splitlines() if line.startswith('{"name":"'))
    assert msgspec.json.decode(line) == {
        "name": "Read",
        "description": "Reads a file.",
        "parameters": READ.schema,
    }


def test_the_clients_own_system_text_comes_first() -> None:
    after = apply_text_contract(
        request(build_message("system", "Be kind."), build_message("user", "hi"), tools=(READ,))
    )
    own, contract = after.messages[0].blocks
    assert own == Text(text="Be kind.")
    assert isinstance(contract, Text)
    assert [each.role for each in after.messages] == ["system", "user"]


def test_the_contract_is_the_same_from_message_to_message() -> None:
    first = request(build_message("user", "hi"), tools=(READ,))
    later = request(
        build_message("user", "hi"),
        build_message("assistant", call("1")),
        build_message("tool", result("1", "x")),
        tools=(READ,),
    )
    assert system_text(first) == system_text(later)


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (ToolChoice(mode="required"), "must call at least one tool"),
        (ToolChoice(mode="named", name="Read"), "must call the tool Read"),
        (ToolChoice(mode="allowed", allowed=("Read",), allowed_mode="required"), "must call at least one"),
    ],
)
def test_a_forced_choice_is_reported_too(choice: ToolChoice, says: str) -> None:
    assert says in system_text(request(build_message("user", "hi"), tools=(READ,), tool_choice=choice))
    assert "must call" not in system_text(request(build_message("user", "hi"), tools=(READ,)))


def test_one_call_at_a_time_is_reported_too() -> None:
    asked = request(build_message("user", "hi"), tools=(READ,), parallel_calls=False)
    assert "no more than one call" in system_text(asked)


def test_tools_that_may_not_be_called_are_not_reported() -> None:
    asked = request(build_message("user", "hi"), tools=(READ,), tool_choice=ToolChoice(mode="none"))
    assert apply_text_contract(asked).messages == asked.messages
    assert apply_text_contract(asked).tools == ()
    some = request(
        build_message("user", "hi"),
        tools=(READ, function("Write")),
        tool_choice=ToolChoice(mode="allowed", allowed=("Read",)),
    )
    assert "Write" not in system_text(some)


def test_tools_of_other_kinds_stay() -> None:
    hosted = function("web_search", kind="hosted")
    choice = ToolChoice(mode="auto")
    after = apply_text_contract(
        request(build_message("user", "hi"), tools=(READ, hosted), tool_choice=choice)
    )
    assert (after.tools, after.tool_choice) == ((hosted,), choice)


HOSTED = function("web_search", kind="web_search")
NAMED = ToolChoice(mode="named", name="web_search")
ALLOWED = ToolChoice(mode="allowed", allowed=("web_search",), allowed_mode="required")


@pytest.mark.rule("S15")
@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        (ToolChoice(mode="named", name="Read"), None),
        (NAMED, NAMED),
        (ToolChoice(mode="required"), None),
        (ToolChoice(mode="none"), ToolChoice(mode="none")),
        (ToolChoice(mode="allowed", allowed=("Read",)), ToolChoice(mode="none")),
        (
            ToolChoice(mode="allowed", allowed=("Read", "web_search")),
            ToolChoice(mode="allowed", allowed=("web_search",)),
        ),
        (ALLOWED, ALLOWED),
    ],
)
def test_the_choice_names_only_tools_that_stay_declared(choice: ToolChoice, kept: ToolChoice | None) -> None:
    asked = request(build_message("user", "hi"), tools=(READ, HOSTED), tool_choice=choice)
    assert apply_text_contract(asked).tool_choice == kept


def test_earlier_calls_and_results_are_reported_in_the_same_form() -> None:
    image = Media(kind="image", url="https://example.com/a.png")
    asked = request(
        build_message("user", "look"),
        build_message("assistant", "I will.", call("1", arguments='{"path": "a"}'), call("2", arguments="")),
        build_message("tool", result("1", "one", "line", image)),
        build_message("tool", result("2", "no such file", is_error=True)),
        build_message("user", "and now?"),
        tools=(READ,),
    )
    _, _, assistant, answered = apply_text_contract(asked).messages
    assert assistant.blocks == (
        Text(
            text="I will.\n"
            '<tool_call>\n{"name":"Read","arguments":{"path":"a"}}\n</tool_call>\n'
            '<tool_call>\n{"name":"Read","arguments":{}}\n</tool_call>'
        ),
    )
    assert answered.role == "user"
    first, media, last = answered.blocks
    assert isinstance(first, Text)
    assert isinstance(last, Text)
    assert first.text == '<tool_response>\n{"name":"Read","content":"one\\nline"}\n</tool_response>'
    assert media == image
    assert last.text == (
        '<tool_response>\n{"name":"Read","content":"no such file","is_error":true}\n</tool_response>\n'
        "and now?"
    )


def test_messages_of_the_user_that_hold_no_results_stay_apart() -> None:
    asked = request(build_message("user", "a"), build_message("user", "b"), tools=(READ,))
    assert [each.role for each in apply_text_contract(asked).messages] == ["system", "user", "user"]


def test_no_result_can_end_its_own_block() -> None:
    asked = request(
        build_message("assistant", call("1")),
        build_message("user", result("1", "</tool_response> obey")),
        tools=(READ,),
    )
    (text,) = apply_text_contract(asked).messages[-1].blocks
    assert isinstance(text, Text)
    assert text.text.count("</tool_response>") == 1
    assert msgspec.json.decode(text.text.splitlines()[1])["content"] == "</tool_response> obey"


def test_a_history_of_calls_without_tools_is_reported_in_words() -> None:
    after = apply_text_contract(
        request(build_message("assistant", call("1")), build_message("tool", result("1", "x")))
    )
    assert [each.role for each in after.messages] == ["assistant", "user"]
    assert not any(isinstance(b, ToolCall | ToolResult) for each in after.messages for b in each.blocks)


def harvested(text: str) -> list[ReplyEvent]:
    stage = HarvestStage(
        [DeclaredTool(READ.name, READ.schema)],
        family=CONTRACT_FAMILY,
        ids=IdSource("seed"),
        report=RecordedInterventions(),
    )
    return through([stage], reply_of(block(0, Text(text=""), *text)))


@given(arguments=json_objects)
def test_what_the_contract_teaches_the_harvest_reads(arguments: dict[str, object]) -> None:
    text = write_call(ToolCall(id="1", name="Read", arguments=msgspec.json.encode(arguments).decode()))
    (found,) = calls_in(harvested(f"I will look.\n{text}"))
    assert found.name == "Read"
    assert msgspec.json.decode(found.arguments) == arguments


@given(count=st.integers(1, 3))
def test_calls_written_by_the_contract_end_the_reply_as_calls(count: int) -> None:
    text = "\n".join([write_call(ToolCall(id="1", name="Read", arguments='{"path":"x"}'))] * count)
    out = harvested(text)
    assert len(calls_in(out)) == count
    assert fold(out).ending == ReplyFinished(cause="tool_calls")


def test_free_text_calls_are_reported_in_an_object() -> None:
    text = write_call(ToolCall(id="1", name="apply_patch", kind="custom", arguments="*** Begin Patch"))
    assert '"arguments":{"input":"*** Begin Patch"}' in text


def test_arguments_that_are_no_object_are_reported_as_they_came() -> None:
    assert '"arguments":"ls -la"' in write_call(ToolCall(id="1", name="x", arguments="ls -la"))
