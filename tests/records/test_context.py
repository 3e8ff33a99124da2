"""What fills the context window of a recorded request."""

import msgspec
import pytest

from dragoman.config.load import load
from dragoman.hub.errors import DragomanError
from dragoman.records.context import KINDS, measure_context

WORDS = "the parser reads one token after the other " * 200
CONFIG = load(
    """\
[providers.up]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"

[providers.up.models."m"]
context_tokens = 50000
""",
    "dragoman.toml",
    {},
)
TOOL = {"name": "Bash", "description": "run", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}


def ask(system: str = "s", tool: str = "t", user: str = "u", answer: str = "a", result: str = "r") -> bytes:
    found = {"type": "tool_result", "tool_use_id": "c1", "content": result}
    messages = [
        {"role": "user", "content": user},
        {"role": "assistant", "content": [{"type": "text", "text": answer}, CALL]},
        {"role": "user", "content": [found, {"type": "text", "text": "go on"}]},
    ]
    tools = [{**TOOL, "description": tool}]
    return msgspec.json.encode(
        {"model": "x", "max_tokens": 9, "system": system, "tools": tools, "messages": messages}
    )


def measure(body: bytes, target: str = "up/m") -> tuple[dict[str, int], int, int | None]:
    use = measure_context(CONFIG, body, client="anthropic", model="x", target=target)
    return use.parts, use.total, use.window


@pytest.mark.parametrize(
    ("member", "kind"),
    [("system", "system"), ("tool", "tools"), ("user", "user"), ("answer", "answers"), ("result", "results")],
)
def test_a_long_text_counts_for_its_kind_alone(member: str, kind: str) -> None:
    short, _, _ = measure(ask())
    long, total, window = measure(ask(**{member: WORDS}))
    assert tuple(long) == KINDS
    assert {each for each in KINDS if long[each] != short[each]} == {kind}
    assert 1000 < long[kind] - short[kind] < 2500
    assert (total, window) == (sum(long.values()), 50_000)


def test_what_is_missing_or_unknown_is_not_estimated() -> None:
    body = b'{"model": "x", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}'
    for target in ("gone/m", "", "up/other"):
        parts, total, window = measure(body, target)
        assert {kind for kind, tokens in parts.items() if tokens} == {"user"}
        assert (total, window) == (parts["user"], None)


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"model": "x", "messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"]
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(DragomanError):
        measure(body)
