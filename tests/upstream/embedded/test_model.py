"""The embedded model carries out commands with the tools of every known agent, then shows the results."""

import msgspec
import pytest

from dragoman.pipeline import translate_request
from dragoman.upstream.embedded.model import HELP, EmbeddedAnswer, answer_request
from tests.pipeline.recordings import body_of, url_of


def function(name: str, *fields: str, required: tuple[str, ...] = ()) -> dict[str, object]:
    schema = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    return {
        "type": "function",
        "function": {"name": name, "parameters": {**schema, "required": list(required)}},
    }


READ, BASH = (
    function("Read", "file_path", required=("file_path",)),
    function("Bash", "command", "description"),
)


def asked(text: str, *messages: object, **settings: object) -> EmbeddedAnswer:
    settings.setdefault("tools", [READ, BASH])
    return answer_request({"messages": [{"role": "user", "content": text}, *messages], **settings})


def calls(thought: EmbeddedAnswer) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, msgspec.json.decode(call.arguments)) for call in thought.calls]


def called(*names: str) -> dict[str, object]:
    made = [{"id": name, "type": "function", "function": {"name": "x", "arguments": "{}"}} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(id: str, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": id, "content": text}


#: Which tool of each agent reads `notes.txt` and which runs `ls -la`, with which arguments.
AGENTS = [
    (
        "anthropic",
        "request-claude-code-first-turn",
        ("Read", {"file_path": "notes.txt"}),
        ("Bash", {"command": "ls -la"}),
    ),
    (
        "anthropic",
        "request-claude-agent-sdk-tool-loop",
        ("Read", {"file_path": "notes.txt"}),
        ("Bash", {"command": "ls -la"}),
    ),
    (
        "openai_responses",
        "request-codex-local-model-first-turn",
        ("exec_command", {"cmd": "cat notes.txt"}),
        ("exec_command", {"cmd": "ls -la"}),
    ),
    (
        "openai_responses",
        "request-codex-gpt-5.5-tool-loop",
        ("exec_command", {"cmd": "cat notes.txt"}),
        ("exec_command", {"cmd": "ls -la"}),
    ),
    (
        "gemini",
        "request-gemini-cli-first-turn",
        ("read_file", {"file_path": "notes.txt"}),
        ("run_shell_command", {"command": "ls -la"}),
    ),
    (
        "openai_chat",
        "request-opencode-first-turn",
        ("read", {"filePath": "notes.txt"}),
        ("bash", {"command": "ls -la"}),
    ),
]


def tools_of(dialect: str, stem: str) -> object:
    """The tools of a recorded request, as the embedded model gets them."""
    url = url_of(dialect, stem)
    return translate_request(
        body_of(dialect, stem), source=dialect, target="openai_chat", model=str(url.get("model", ""))
    ).body["tools"]


@pytest.mark.parametrize(("dialect", "stem", "read", "run"), AGENTS, ids=[agent[1] for agent in AGENTS])
def test_it_uses_the_tools_of_each_agent(
    dialect: str, stem: str, read: tuple[str, dict[str, object]], run: tuple[str, dict[str, object]]
) -> None:
    thought = asked("read notes.txt and run `ls -la`", tools=tools_of(dialect, stem))
    for (name, arguments), (wanted_name, wanted) in zip(calls(thought), (read, run), strict=True):
        assert name == wanted_name
        assert wanted.items() <= arguments.items()
    assert thought.finish == "tool_calls"


def test_it_writes_the_script_that_codex_wants_from_newer_models() -> None:
    tools = tools_of("openai_responses", "request-codex-gpt-6.1-sol-first-turn")
    ((name, arguments),) = calls(asked("run `echo 'a'`", tools=tools))
    assert name.endswith("exec")
    script = "const result = await tools.exec_command({cmd: \"echo 'a'\"});\ntext(result.output ?? result);"
    assert arguments == {"input": script}


def test_a_command_can_be_a_list_of_arguments() -> None:
    shell = function("shell", "command")
    shell["function"]["parameters"]["properties"]["command"] = {"type": "array"}  # type: ignore[index]  # nested objects
    assert calls(asked("run ls", tools=[shell])) == [("shell", {"command": ["bash", "-lc", "ls"]})]


def test_fields_that_a_tool_requires_are_filled() -> None:
    bash = function("bash", "command", "description", required=("command", "description"))
    assert calls(asked("run ls", tools=[bash])) == [("bash", {"command": "ls", "description": "example"})]


def test_a_tool_in_a_namespace_is_known_by_its_own_name() -> None:
    assert calls(asked("run ls", tools=[function("box__shell", "cmd")])) == [("box__shell", {"cmd": "ls"})]


def test_commands_at_once_are_parallel_calls_with_ids_of_their_own() -> None:
    thought = asked("read a.txt and b.txt")
    assert calls(thought) == [("Read", {"file_path": "a.txt"}), ("Read", {"file_path": "b.txt"})]
    assert len({call.id for call in thought.calls}) == 2


def test_a_client_that_wants_one_call_at_a_time_gets_one_at_a_time() -> None:
    prompt = "read a.txt and b.txt"
    assert calls(asked(prompt, parallel_tool_calls=False)) == [("Read", {"file_path": "a.txt"})]
    later = asked(prompt, called("1"), result("1", "A"), parallel_tool_calls=False)
    assert calls(later) == [("Read", {"file_path": "b.txt"})]


def test_commands_in_turn_are_calls_in_turn() -> None:
    prompt = "run one then run two"
    assert calls(asked(prompt)) == [("Bash", {"command": "one"})]
    assert calls(asked(prompt, called("1"), result("1", "done"))) == [("Bash", {"command": "two"})]


def test_when_all_is_done_it_shows_what_came_back() -> None:
    thought = asked("read a.txt and run ls", called("1", "2"), result("1", "words"), result("2", "files"))
    assert thought.calls == ()
    assert thought.text == "read a.txt:\nwords\n\nrun ls:\nfiles"
    assert thought.finish == "stop"


def test_a_long_result_is_shown_in_part() -> None:
    thought = asked("read a.txt", called("1"), result("1", "x" * 100_000))
    assert len(thought.text) < 5000
    assert thought.text.endswith("(100000 characters in all)")


def test_a_result_in_parts_is_read() -> None:
    parts = {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "words"}]}
    assert "words" in asked("read a.txt", called("1"), parts).text


def test_a_reminder_behind_the_results_is_no_new_prompt() -> None:
    reminder = {"role": "user", "content": "<system-reminder>be nice</system-reminder>"}
    remark = {"role": "user", "content": "Remember to be nice."}
    for message in (reminder, remark):
        assert "words" in asked("read a.txt", called("1"), result("1", "words"), message).text


def test_a_prompt_that_was_answered_is_done() -> None:
    answered = {"role": "assistant", "content": "a.txt: words"}
    thanks = {"role": "user", "content": "thanks"}
    assert asked("read a.txt", called("1"), result("1", "words"), answered, thanks).text == HELP


def test_a_new_prompt_is_carried_out_after_an_answered_one() -> None:
    answered = {"role": "assistant", "content": "a.txt: words"}
    again = {"role": "user", "content": "read b.txt"}
    thought = asked("read a.txt", called("1"), result("1", "words"), answered, again)
    assert calls(thought) == [("Read", {"file_path": "b.txt"})]


def test_words_before_a_call_do_not_answer_the_prompt() -> None:
    words = {"role": "assistant", "content": "On it."}
    reminder = {"role": "user", "content": "more"}
    thought = asked("read a.txt", words, called("1"), result("1", "words"), reminder)
    assert "words" in thought.text


def test_without_a_fitting_tool_it_says_so() -> None:
    assert (
        asked("run ls", tools=[READ]).text == "I would run ls, but no tool of yours does that (tools: Read)."
    )
    assert "(tools: none)" in asked("run ls", tools=[]).text
    assert "(tools: none)" in asked("run ls", tool_choice="none").text


def test_any_tool_can_be_called_by_its_name() -> None:
    add = function("add", "a", "b", required=("a", "b"))
    assert calls(asked('call add {"a": 1}', tools=[add])) == [("add", {"a": 1, "b": "example"})]
    assert "no tool of yours" in asked("call subtract", tools=[add]).text


def test_arguments_that_cannot_be_read_are_left_out() -> None:
    assert calls(asked("call add {a: 1}", tools=[function("add", "a")])) == [("add", {})]


def test_an_agent_of_many_tools_means_none_by_a_mere_word() -> None:
    many = [function(f"get_weather_{number}", "location") for number in range(6)]
    assert asked("What is the weather in Paris?", tools=many).text == HELP


def test_a_small_application_means_the_tool_it_names() -> None:
    weather = function("get_weather", "location", required=("location",))
    assert calls(asked("What is the weather in Paris?", tools=[weather])) == [
        ("get_weather", {"location": "example"})
    ]
    assert asked("What is the time in Paris?", tools=[weather]).text == HELP
    after = asked("What is the weather?", called("1"), result("1", "rain"), tools=[weather])
    assert after.text == "result:\nrain"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "Bash"}}])
def test_a_call_that_the_client_insists_on_is_made_once(choice: object) -> None:
    thought = asked("hello", tool_choice=choice)
    assert [name for name, _ in calls(thought)] == ["Read" if choice == "required" else "Bash"]
    assert asked("hello", called("1"), result("1", "ok"), tool_choice=choice).calls == ()


def test_a_thought_is_reported_before_the_answer() -> None:
    thought = asked("think")
    assert thought.reasoning
    assert thought.text == "I have thought about it, and I am done."
    assert asked("think, then run ls").reasoning


def test_failures_can_be_ordered() -> None:
    assert asked("fail").status == 500
    assert asked("fail with 429").status == 429
    assert (asked("fail midway").cut, asked("break off").cut) == ("error", "silence")


def test_an_answer_bound_to_a_schema_is_an_instance_of_it() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    bound = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert asked("hello", response_format=bound).text == '{"title":"example"}'
    assert calls(asked("run ls", response_format=bound)) == [("Bash", {"command": "ls"})]
    later = asked("run ls", called("1"), result("1", "x"), response_format=bound)
    assert later.text == '{"title":"example"}'
    assert asked("hello", response_format={"type": "json_object"}).text == '{"answer":"example"}'


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_answer_keeps_to_the_limit(name: str) -> None:
    thought = asked("hello", **{name: 5})
    assert (len(thought.text), thought.finish, thought.reply_tokens) == (20, "length", 5)


def test_the_same_request_gets_the_same_answer_and_another_gets_other_ids() -> None:
    assert asked("read a.txt") == asked("read a.txt")
    assert asked("read a.txt").calls[0].id != asked("read a.txt", temperature=1).calls[0].id


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": None, "tools": 3},
        {"messages": [1, {"role": "user", "content": 5}], "tools": [None, {"function": {"name": 4}}]},
        {"messages": [{"role": "user", "content": [{"text": 3}, "x"]}], "tool_choice": {"function": 1}},
        {"messages": [{"role": "user", "content": "call x"}], "response_format": {"json_schema": 1}},
        {"messages": [{"role": "user", "content": "call !"}], "max_tokens": "many"},
    ],
)
def test_a_request_that_makes_no_sense_is_answered_all_the_same(body: dict[str, object]) -> None:
    assert answer_request(body).text
