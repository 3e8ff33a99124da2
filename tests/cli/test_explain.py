"""`dragoman explain`, as a shell runs it."""

from pathlib import Path

import msgspec

from tests.cli.run_command import dragoman

RECORDINGS = Path(__file__).parent.parent / "recordings"
CONFIG = """
[providers.main]
dialect = "anthropic"
base_url = "http://127.0.0.1:9/v1"
[providers.side]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"

[[rules]]
preset = "probes"
answer = "OK"
[[rules]]
name = "helpers"
when.sub_agent = true
target = "side/small"
[[rules]]
name = "mine"
when.path = "/mine"
function = "choose.py:choose"
[[rules]]
preset = "default"
target = "main"
"""
FUNCTION = "def choose(request):\n    return 'side/mine'\n"


def prepare(folder: Path) -> None:
    (folder / "dragoman.toml").write_text(CONFIG)
    (folder / "choose.py").write_text(FUNCTION)


def test_the_rule_of_a_recorded_request_is_named_with_the_reason(tmp_path: Path) -> None:
    prepare(tmp_path)
    ran = dragoman(tmp_path, "explain", str(RECORDINGS / "anthropic/request-claude-code-subagent.json"))
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith(
        "request  claude-opus-5-5: agent claude-code, agent_version 2.1.325, sub_agent "
    )
    assert lines[1] == (
        'no       probes: class = ["quota","warmup"], but the request has turn → an answer of the gateway'
    )
    assert lines[2] == "wins     helpers: sub_agent = true → side/small"
    assert lines[3].startswith('no       mine: path = "/mine", but the request has no entry')
    assert lines[4] == "holds    default: it has no conditions → main/claude-opus-5-5"
    assert lines[5] == "targets  side/small (rule helpers, route helpers)"


def test_an_entry_and_a_function_are_explained_as_json(tmp_path: Path) -> None:
    prepare(tmp_path)
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    (tmp_path / "r.json").write_bytes(msgspec.json.encode({"path": "/mine/v1/messages", "body": body}))
    ran = dragoman(tmp_path, "explain", "r.json", "--json")
    found = msgspec.json.decode(ran.out)
    assert (found["rule"], found["targets"]) == ("mine", ["side/mine"])


def test_a_body_alone_needs_its_dialect(tmp_path: Path) -> None:
    prepare(tmp_path)
    body = {"model": "claude-x", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}
    (tmp_path / "r.json").write_bytes(msgspec.json.encode(body))
    assert "--dialect" in dragoman(tmp_path, "explain", "r.json").err
    header = "user-agent: claude-cli/2.1.325"
    ran = dragoman(tmp_path, "explain", "r.json", "--dialect", "anthropic", "--header", header)
    assert ran.out.splitlines()[-1] == "answer   by the gateway, rule probes"


def test_a_function_that_fails_is_explained_and_the_next_rule_decides(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "choose.py").write_text("def choose(request):\n    raise ValueError('no such customer')\n")
    request = {"path": "/mine/v1/messages", "body": {"model": "m", "messages": []}}
    (tmp_path / "r.json").write_bytes(msgspec.json.encode(request))
    ran = dragoman(tmp_path, "explain", "r.json")
    assert ran.code == 0, ran.err
    reason = "the function decides nothing: it raised ValueError: no such customer"
    assert f"no       mine: {reason} → what choose.py:choose returns" in ran.out
    assert "wins     default" in ran.out


def test_a_function_has_no_more_time_when_it_is_explained(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "choose.py").write_text("def choose(request):\n    while True: pass\n")
    request = {"path": "/mine/v1/messages", "body": {"model": "m", "messages": []}}
    (tmp_path / "r.json").write_bytes(msgspec.json.encode(request))
    assert "it took longer than 0.5 s" in dragoman(tmp_path, "explain", "r.json").out


def test_a_session_without_a_turn_is_explained_by_the_next_step(tmp_path: Path) -> None:
    prepare(tmp_path)
    ran = dragoman(tmp_path, "explain", "last")
    assert (ran.code, "dragoman explain last 1" in ran.err) == (2, True)


def test_a_body_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    prepare(tmp_path)
    request = {"path": "/v1/messages", "body": {"model": "m", "messages": "hello"}}
    (tmp_path / "r.json").write_bytes(msgspec.json.encode(request))
    lines = dragoman(tmp_path, "explain", "r.json").out.splitlines()
    assert lines[1].startswith("unread   the body is no request of this API")
    assert lines[-1] == "targets  main/m (rule default, route default)"
