"""Claude Code behind the gateway, with the caller's own tools, end to end on this machine.

The OpenAI SDK calls the gateway, which runs Claude Code, which calls another gateway, behind which is a
scripted model.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import openai
import pytest

from tests.e2e.claude_code import CALCULATE, LOOK_UP, MODEL, PIXEL, Caller, Talk, tool
from tests.e2e.environment import Environment
from tests.e2e.upstream.script import Turn, Use

SUM = (Turn(uses=(Use("calculate", "123 + 456"),)), Turn(text="The result is 579."))
TWO = (Turn(uses=(Use("calculate", "1 + 2"), Use("look_up", "colour"))), Turn(text="3 and blue."))


@pytest.mark.rule("R91", "R92", "R93", "R95", "R96", "R99", "R102", "R103", "C18")
@pytest.mark.parametrize(
    ("streams", "follow_up"), [(False, "bare"), (True, "bare"), (False, "header"), (True, "with-tools")]
)
def test_a_call_and_its_result_are_one_session(caller: Caller, streams: bool, follow_up: str) -> None:
    talk = caller.talk(SUM, streams=streams)
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    assert (asked.content, asked.finish, asked.model) == (None, "tool_calls", MODEL)
    assert asked.usage.completion_tokens > 0
    assert [(call.function.name, call.function.arguments) for call in asked.calls] == [
        ("calculate", '{"expression":"123 + 456"}')
    ]
    spawned = caller.counts()["spawned"]
    talk.result(asked.calls[0], "579")
    answered = talk.send(
        tools=[CALCULATE] if follow_up == "with-tools" else None,
        session=asked.session if follow_up == "header" else "",
    )
    assert (answered.content, answered.finish, answered.model) == ("The result is 579.", "stop", MODEL)
    assert answered.session == asked.session
    assert '"text":"579"' in talk.last_received
    assert caller.counts()["spawned"] == spawned
    assert talk.problems == []


@pytest.mark.rule("R107", "R108", "C21", "C23", "D10")
def test_a_streamed_call_has_one_id_and_its_order(environment: Environment, caller: Caller) -> None:
    talk = caller.talk(SUM)
    talk.history = [{"role": "user", "content": f"{talk.key}: add"}]
    raw = environment.run(talk.raw_stream([CALCULATE]))
    assert raw.endswith("data: [DONE]\n\n")
    chunks = [msgspec.json.decode(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["id"].startswith("chatcmpl-")
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    entries = [entry for choice in choices for entry in choice["delta"].get("tool_calls", ())]
    assert {entry["index"] for entry in entries} == {0}
    pieces = [entry["function"]["arguments"] for entry in entries]
    assert pieces == ['{"expression":"123 + 456"}'], "the call comes in one chunk"
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
    assert (choices[-1]["delta"], choices[-1]["finish_reason"]) == ({}, "tool_calls")


@pytest.mark.rule("R93", "R103")
def test_schemas_arrive_word_for_word(caller: Caller) -> None:
    schema = {
        "type": "object",
        "$defs": {"unit": {"enum": ["m", "ft", None]}},
        "properties": {
            "length": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}], "default": None},
            "unit": {"$ref": "#/$defs/unit"},
            "when": {"type": "string", "format": "date", "pattern": "^2"},
            "more": {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 3},
        },
        "additionalProperties": False,
        "required": ["length"],
    }
    measure = {"name": "measure", "description": "Measures.\n\nTwice.", "parameters": schema}
    talk = caller.talk([Turn(text="Hello.")])
    talk.say("hello", tools=[{"type": "function", "function": measure}, CALCULATE])
    tools = talk.conversation.turns[-1].body["tools"]
    assert [reply["name"] for reply in tools] == ["mcp__gateway__calculate", "mcp__gateway__measure"]
    assert (tools[1]["description"], tools[1]["input_schema"]) == (measure["description"], schema)


@pytest.mark.rule("R98", "R104")
@pytest.mark.parametrize("order", ["together", "reversed"])
def test_parallel_calls_are_answered_in_any_order(caller: Caller, order: str) -> None:
    talk = caller.talk(TWO)
    asked = talk.say("two things", tools=[CALCULATE, LOOK_UP])
    assert [call.function.name for call in asked.calls] == ["calculate", "look_up"]
    results = [(asked.calls[0], "it is 3"), (asked.calls[1], "it is blue")]
    for call, content in results if order == "together" else reversed(results):
        talk.result(call, content)
    answered = talk.send()
    assert answered.content == "3 and blue."
    for call, content in results:
        assert talk.result_received(call) == content
    assert talk.problems == []


@pytest.mark.rule("R97", "R98")
def test_results_that_come_one_by_one_are_all_delivered_and_the_missing_asked_for(caller: Caller) -> None:
    talk = caller.talk(TWO)
    asked = talk.say("two things", tools=[CALCULATE, LOOK_UP])
    first, second = asked.calls
    talk.result(second, "it is blue")
    again = talk.send()
    assert (again.finish, [call.id for call in again.calls]) == ("tool_calls", [first.id])
    assert again.session == asked.session
    talk.history.pop()
    assert [call.id for call in talk.send().calls] == [first.id], "the same again asks for the same"
    talk.result(first, "it is 3")
    assert talk.send().content == "3 and blue."
    assert talk.result_received(first) == "it is 3"
    assert talk.result_received(second) == "it is blue"


@pytest.mark.rule("R98")
def test_a_caller_that_wants_no_parallel_calls_gets_them_one_at_a_time(caller: Caller) -> None:
    talk = caller.talk(TWO, streams=True)
    asked = talk.say("two things", tools=[CALCULATE, LOOK_UP], parallel_tool_calls=False)
    assert [call.function.name for call in asked.calls] == ["calculate"]
    talk.result(asked.calls[0], "it is 3")
    second = talk.send(tools=[CALCULATE, LOOK_UP], parallel_tool_calls=False)
    assert [call.function.name for call in second.calls] == ["look_up"]
    talk.result(second.calls[0], "it is blue")
    assert talk.send(tools=[CALCULATE, LOOK_UP], parallel_tool_calls=False).content == "3 and blue."
    assert len(talk.received) == 2
    assert talk.result_received(asked.calls[0]) == "it is 3"


@pytest.mark.rule("R95", "R100")
def test_ten_rounds_with_text_beside_the_calls_are_one_session_and_one_process(caller: Caller) -> None:
    steps = [Turn(text=f"Step {number}.", uses=(Use("calculate", f"{number}"),)) for number in range(10)]
    talk = caller.talk([*steps, Turn(text="That was all.")])
    reply = talk.say("ten steps", tools=[CALCULATE])
    spawned = caller.counts()["spawned"]
    for number in range(10):
        assert (reply.content, reply.finish) == (f"Step {number}.", "tool_calls")
        talk.result(reply.calls[0], f"result {number}")
        session, reply = reply.session, talk.send()
        assert reply.session == session
    assert reply.content == "That was all."
    assert caller.counts()["spawned"] == spawned
    assert talk.say("thanks").session == session, "the same session gets the next prompt"
    assert talk.problems == []


@pytest.mark.rule("R100")
def test_a_prompt_takes_only_so_many_rounds(caller: Caller) -> None:
    call = Turn(uses=(Use("calculate", "1"),))
    talk = caller.talk([call, call, Turn(text="Well then.")], model="brief")
    asked = talk.say("one step", tools=[CALCULATE])
    talk.result(asked.calls[0], "1")
    with pytest.raises(openai.BadRequestError) as refused:
        talk.send()
    assert refused.value.code == "max_turns_exceeded"
    talk.history.append({"role": "assistant", "content": "(no answer)"})
    assert talk.say("answer without tools").content == "Well then."


@pytest.mark.rule("R94", "R106", "R109")
def test_a_tool_that_was_not_declared_is_denied_and_never_shown(caller: Caller) -> None:
    talk = caller.talk([Turn(uses=(Use("shell", "id"), Use("calculate", "1"))), Turn(text="One.")])
    asked = talk.say("count", tools=[CALCULATE])
    assert [call.function.name for call in asked.calls] == ["calculate"]
    audit = caller.admin("GET", f"/admin/sessions/{asked.session}")["audit"]
    assert {(entry["tool"], entry["allowed"]) for entry in audit} == {
        ("Bash", False),
        ("mcp__gateway__calculate", True),
    }
    talk.result(asked.calls[0], "1")
    assert talk.send().content == "One."
    assert "No such tool" in talk.last_received


@pytest.mark.rule("R94", "R106")
def test_a_model_that_insists_on_undeclared_tools_is_stopped(caller: Caller) -> None:
    talk = caller.talk([Turn(uses=(Use("shell", "id"),))])
    with pytest.raises(openai.PermissionDeniedError) as denied:
        talk.say("count", tools=[CALCULATE])
    assert denied.value.code == "permission_denied"
    assert "Bash" in denied.value.message
    assert denied.value.response.headers["x-session-id"]


@pytest.mark.rule("D12")
def test_a_caller_that_wants_no_calls_gets_none(caller: Caller) -> None:
    talk = caller.talk([SUM[0], Turn(text="About 600.")])
    reply = talk.say("add 123 and 456", tools=[CALCULATE], tool_choice="none")
    assert (reply.content, reply.calls, reply.finish) == ("About 600.", [], "stop")
    assert "the caller takes no tool calls in this turn" in talk.last_received
    assert talk.problems == []


@pytest.mark.rule("D12")
def test_what_claude_code_settles_itself_is_reported_as_lost(caller: Caller) -> None:
    talk = caller.talk([Turn(text="Hello.")])
    settings = {"temperature": 0.2, "tool_choice": "required", "max_completion_tokens": 100}
    reply = talk.say("hello", tools=[CALCULATE], **settings)
    assert all(name in reply.losses for name in settings)
    assert caller.talk([Turn(text="Hello.")]).say("hello", tools=[CALCULATE]).losses == ""


@pytest.mark.rule("R105", "R106")
def test_a_result_that_comes_too_late_is_refused_and_the_model_is_reported(caller: Caller) -> None:
    talk = caller.talk([SUM[0], Turn(text="Never mind.")], model="hasty")
    asked = talk.say("add", tools=[CALCULATE])
    talk.wait_until("timed_out", 1)
    talk.result(asked.calls[0], "579")
    with pytest.raises(openai.APIStatusError) as late:
        talk.send()
    assert (late.value.status_code, late.value.code) == (504, "tool_call_timeout")
    assert late.value.response.headers["x-session-id"] == asked.session
    assert late.value.response.headers["x-should-retry"] == "false"
    talk.history.pop()
    answered = talk.say("go on without it")
    assert (answered.content, answered.session) == ("Never mind.", asked.session)
    assert "timed out" in talk.result_received(asked.calls[0])
    assert "go on without it" in talk.last_received


def test_words_instead_of_results_give_up_the_calls(caller: Caller) -> None:
    talk = caller.talk(TWO)
    asked = talk.say("two things", tools=[CALCULATE, LOOK_UP])
    talk.result(asked.calls[0], "it is 3")
    answered = talk.say("forget the colour")
    assert (answered.content, answered.session) == ("3 and blue.", asked.session)
    assert talk.result_received(asked.calls[0]) == "it is 3"
    assert "went on without it" in talk.result_received(asked.calls[1])
    assert "forget the colour" in talk.last_received


@pytest.mark.rule("R103")
def test_tools_that_change_are_changed_in_the_session(caller: Caller) -> None:
    talk = caller.talk([Turn(text="Hello."), Turn(uses=(Use("look_up", "colour"),)), Turn(text="Blue.")])
    greeted = talk.say("hello", tools=[CALCULATE])
    asked = talk.say("look it up", tools=[LOOK_UP])
    assert ([call.function.name for call in asked.calls], asked.session) == (["look_up"], greeted.session)
    talk.result(asked.calls[0], "blue")
    assert talk.send().content == "Blue."


def test_a_conversation_goes_on_with_another_model(caller: Caller) -> None:
    talk = caller.talk([Turn(text="Hello."), Turn(text="Hello again.")])
    greeted = talk.say("hello", tools=[CALCULATE])
    talk.model = f"{MODEL}/another-model"
    again = talk.say("hello again")
    assert again.session != greeted.session
    assert (again.content, again.model) == ("Hello again.", f"{MODEL}/another-model")
    assert '"text":"Hello."' in talk.last_received
    assert [received.body["model"] for received in talk.conversation.turns] == [
        "inner-model",
        "another-model",
    ]


@pytest.mark.rule("R101")
def test_an_edited_history_is_replayed_as_it_reads_now(caller: Caller) -> None:
    talk = caller.talk([Turn(text="Fine."), Turn(text="Finer."), Turn(text="Finest.")])
    first = talk.say("how is it?", tools=[CALCULATE])
    talk.history[-1]["content"] = "Bad."
    second = talk.say("and now?", tools=[CALCULATE])
    assert second.session != first.session
    assert '"text":"Bad."' in talk.last_received
    assert "Fine." not in talk.last_received
    third = talk.say("and now?", tools=[CALCULATE])
    assert (third.content, third.session) == ("Finest.", second.session)
    assert talk.problems == []


@pytest.mark.rule("R101")
@pytest.mark.parametrize("model", ["narrow", "forgetful"])
def test_a_session_that_had_to_go_is_replayed(caller: Caller, model: str) -> None:
    talk = caller.talk(SUM, model=model)
    asked = talk.say("add", tools=[CALCULATE])
    before = caller.counts(model)
    if model == "narrow":
        assert caller.talk([Turn(text="Me too.")], model=model).say("room for me?", tools=[CALCULATE]).content
        assert caller.counts(model)["evicted"] == before["evicted"] + 1
    else:
        talk.wait_until("expired", before["expired"] + 1)
    talk.result(asked.calls[0], "579")
    answered = talk.send(session=asked.session)
    assert (answered.content, answered.session) == ("The result is 579.", asked.session)
    assert caller.counts(model)["replayed"] == before["replayed"] + 1
    assert talk.result_received(asked.calls[0]) == "579"
    assert "calculate" in talk.tools_received, "the tools are remembered, though they were not declared again"
    assert talk.problems == []


@pytest.mark.rule("R102", "R106")
@pytest.mark.parametrize("session", ["ses_0123456789abcdef0123456789abcdef", "anything"])
def test_a_session_that_never_was_is_not_found(caller: Caller, session: str) -> None:
    talk = caller.talk([Turn(text="Hello.")])
    with pytest.raises(openai.NotFoundError) as missing:
        talk.say("hello", session=session)
    assert missing.value.code == "session_not_found"


def test_unrequested_results_are_not_found(caller: Caller) -> None:
    talk = caller.talk([Turn(text="Hello.")])
    talk.history = [{"role": "tool", "tool_call_id": "toolu_of_nobody", "content": "1"}]
    with pytest.raises(openai.NotFoundError) as missing:
        talk.send()
    assert missing.value.code == "session_not_found"


def _whole_talk(talk: Talk, number: int) -> tuple[str, str, str | None]:
    asked = talk.say(f"what is {number}?", tools=[CALCULATE])
    talk.result(asked.calls[0], f"result {number}")
    answered = talk.send()
    return asked.session, answered.session, answered.content


def test_twenty_sessions_at_once_are_not_mixed_up(caller: Caller) -> None:
    talks = [
        caller.talk([Turn(uses=(Use("calculate", f"{n}"),)), Turn(text=f"It is {n}.")]) for n in range(20)
    ]
    with ThreadPoolExecutor(20) as pool:
        reply = list(pool.map(_whole_talk, talks, range(20)))
    assert [content for _, _, content in reply] == [f"It is {n}." for n in range(20)]
    assert all(first == second for first, second, _ in reply)
    assert len({session for session, _, _ in reply}) == 20
    for number, talk in enumerate(talks):
        assert f"result {number}" in talk.last_received
        assert talk.problems == []


def test_large_and_strange_things_get_through(caller: Caller) -> None:
    look = tool("mcp__other__look.up", "key")
    talk = caller.talk([Turn(uses=(Use("strange", "Ω"),)), Turn(text="I see.")])
    system = "Be brief. " * 20_000
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    talk.history = [
        {"role": "developer", "content": system},
        {"role": "user", "content": [{"type": "text", "text": f"{talk.key}: look"}, picture]},
    ]
    asked = talk.send(tools=[look])
    assert asked.calls[0].function.name == "mcp__other__look.up"
    assert '"image/png"' in talk.last_received
    assert system.strip() in str(talk.conversation.turns[-1].body["system"])
    talk.result(asked.calls[0], "Ω\u2028\n" * 140_000)
    assert talk.send().content == "I see."
    assert talk.result_received(asked.calls[0]).startswith("Ω\u2028\nΩ")
    assert talk.problems == []


def test_words_are_never_taken_for_commands_or_files(caller: Caller, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the-content-of-a-file", "utf-8")
    call = Turn(uses=(Use("calculate", "1"),))
    talk = caller.talk([Turn(text="Hello."), call, Turn(text="So."), Turn(text="Replayed.")])
    talk.say(f"@{secret} /help", tools=[CALCULATE])
    asked = talk.say(f"look at @{secret}")
    talk.result(asked.calls[0], f"see @{secret}")
    talk.say(f"and at @{secret}")
    talk.history[-1]["content"] = "What I never said."
    assert talk.say(f"/cost @{secret}", tools=[CALCULATE]).content == "Replayed."
    assert len(talk.received) == 4
    for received in talk.conversation.turns:
        assert str(secret) in received.raw.decode()
        assert "the-content-of-a-file" not in received.raw.decode()


def test_another_client_cannot_reach_a_session(caller: Caller) -> None:
    talk = caller.talk([Turn(text="Hello."), Turn(text="Hello again.")])
    greeted = talk.say("hello", tools=[CALCULATE])
    talk.api_key = "somebody-else"
    with pytest.raises(openai.NotFoundError):
        talk.say("hello", session=greeted.session)
    assert talk.send().session != greeted.session
