"""The `translate` and `check` commands, as a shell runs them."""

from pathlib import Path

import msgspec
import pytest

from tests.cli.run_command import dragoman

RECORDINGS = Path(__file__).parent.parent / "recordings"
REQUEST = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 100,
    "top_k": 5,
    "messages": [{"role": "user", "content": "hello"}],
}


def text_of(value: object) -> str:
    return msgspec.json.encode(value).decode()


def test_a_request_goes_through_a_pipe_and_its_losses_to_stderr(tmp_path: Path) -> None:
    ran = dragoman(
        tmp_path,
        "translate",
        "request",
        "--from",
        "anthropic",
        "--to",
        "openai_chat",
        stdin=text_of(REQUEST),
    )
    assert ran.code == 0
    body = msgspec.json.decode(ran.out)
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert "loss: top_k:" in ran.err


def test_strict_refuses_and_states_what_would_be_lost(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(msgspec.json.encode(REQUEST))
    ran = dragoman(
        tmp_path, "translate", "request", "--strict", "--from", "anthropic", "--to", "openai_chat", str(file)
    )
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: top_k:")
    assert "hint:" in ran.err


def test_a_profile_reports_what_the_upstream_takes(tmp_path: Path) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text('model = "local"\nmax_tokens_field = "max_completion_tokens"\n')
    ran = dragoman(
        tmp_path,
        *("translate", "request", "--from", "anthropic", "--to", "openai_chat", "--profile", str(profile)),
        stdin=text_of(REQUEST),
    )
    body = msgspec.json.decode(ran.out)
    assert (body["model"], body["max_completion_tokens"]) == ("local", 100)


def test_a_profile_with_an_unknown_fact_lists_those_that_exist(tmp_path: Path) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text("imagse = false\n")
    ran = dragoman(
        tmp_path,
        *("translate", "request", "--from", "anthropic", "--to", "openai_chat", "--profile", str(profile)),
        stdin=text_of(REQUEST),
    )
    assert ran.code == 2
    assert "imagse" in ran.err
    assert "images" in ran.err


@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_a_stream_goes_through_and_is_judged_legal(source: str, tmp_path: Path) -> None:
    recording = RECORDINGS / source / "stream-text.sse"
    ran = dragoman(tmp_path, "translate", "stream", "--from", source, "--to", "anthropic", str(recording))
    assert ran.code == 0
    written = tmp_path / "reply.sse"
    written.write_text(ran.out, "utf-8")
    judged = dragoman(tmp_path, "check", "stream", "--dialect", "anthropic", str(written))
    assert judged.code == 0
    assert "a valid anthropic stream" in judged.err


def test_a_stream_that_is_cut_short_fails_loudly(tmp_path: Path) -> None:
    whole = (RECORDINGS / "openai_chat" / "stream-text.sse").read_text("utf-8")
    ran = dragoman(
        tmp_path,
        "translate",
        "stream",
        "--from",
        "openai_chat",
        "--to",
        "anthropic",
        stdin=whole[: len(whole) // 2],
    )
    assert ran.code == 1
    assert "event: error" in ran.out
    assert "the reply failed" in ran.err


def test_a_whole_reply_is_translated_with_the_names_that_the_client_knows(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    name = "mcp__a_server_with_a_long_name__and_a_tool_with_a_name_that_is_even_longer"
    tool = {"name": name, "input_schema": {"type": "object", "properties": {}}}
    request.write_bytes(msgspec.json.encode({**REQUEST, "tools": [tool]}))
    sent = dragoman(
        tmp_path, "translate", "request", "--from", "anthropic", "--to", "openai_chat", str(request)
    )
    short = msgspec.json.decode(sent.out)["tools"][0]["function"]["name"]
    assert len(short) <= 64
    call = {"id": "call_1", "type": "function", "function": {"name": short, "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    ran = dragoman(
        tmp_path,
        *("translate", "reply", "--from", "openai_chat", "--to", "anthropic", "--request", str(request)),
        stdin=text_of({**reply, "choices": choices}),
    )
    assert ran.code == 0
    assert msgspec.json.decode(ran.out)["content"][0]["name"] == name


def test_an_illegal_stream_is_reported_frame_by_frame(tmp_path: Path) -> None:
    stream = 'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    ran = dragoman(tmp_path, "check", "stream", "--dialect", "anthropic", "-", stdin=stream)
    assert ran.code == 1
    assert ran.out.startswith("frame 1: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "request", "--from", "anthropic", "--to", "openai_chat", "no-such-file.json"),
        ("translate", "request", "--from", "anthropic", "--to", "openai_chat", "-"),
        ("translate", "reply", "--from", "gemini", "--to", "openai_chat", "-"),
    ],
)
def test_bad_input_gives_one_clear_error_and_no_traceback(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ran = dragoman(tmp_path, *arguments, stdin="{ not json")
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err


GOVERNED_REQUEST = {
    **REQUEST,
    "tools": [
        {"name": "Read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
    ],
}
TEXT_CALL = "<tool_call>{'name': 'Read', 'arguments': {'path': 'a',}}</tool_call>"


@pytest.mark.rule("G12")
@pytest.mark.parametrize("kind", ["reply", "stream"])
def test_a_reply_can_be_replayed_with_governance(tmp_path: Path, kind: str) -> None:
    (tmp_path / "request.json").write_bytes(msgspec.json.encode(GOVERNED_REQUEST))
    (tmp_path / "settings.toml").write_text('harvest = "hermes"\ntools = "hold"\n', "utf-8")
    head: dict[str, object] = {"id": "c", "created": 1, "model": "m", "object": "chat.completion"}
    message = {"role": "assistant", "content": TEXT_CALL}
    if kind == "reply":
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        upstream = text_of({**head, "choices": [choice]})
    else:
        chunk = {"index": 0, "delta": message, "finish_reason": "stop"}
        upstream = f"data: {text_of({**head, 'choices': [chunk]})}\n\ndata: [DONE]\n\n"
    arguments = [
        "translate",
        kind,
        "--from",
        "openai_chat",
        "--to",
        "anthropic",
        "--governance",
        "settings.toml",
    ]
    ran = dragoman(tmp_path, *arguments, "--request", "request.json", stdin=upstream)
    assert ran.code == 0
    assert '"tool_use"' in ran.out.replace(" ", "")
    assert "governance: harvest Read hermes\n" in ran.err
    assert "governance: repair Read" in ran.err
    assert dragoman(tmp_path, *arguments, stdin=upstream).code == 2
    (tmp_path / "settings.toml").write_text('harvest = "hermess"\n', "utf-8")
    refused = dragoman(tmp_path, *arguments, "--request", "request.json", stdin=upstream)
    assert refused.code == 2
    assert '"hermes"' in refused.err
