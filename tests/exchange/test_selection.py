"""Rules in an exchange: which target is called, the header, answers of the gateway, tags and functions."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from dragoman.config.load import load
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.rule_functions import MAX_LATE
from tests.exchange.clock import run
from tests.exchange.fakes import (
    JSON,
    Ask,
    Break,
    ExchangeResult,
    RememberingClient,
    Script,
    ScriptedUpstream,
    Wait,
    ask,
)
from tests.exchange.sample_replies import (
    CHAT_DONE,
    CHAT_START,
    CHAT_STREAM,
    CHAT_WHOLE,
    DIALECTS,
    data,
    error,
)

HEAD = """
default = "main/base"
[providers.main]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
[providers.side]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
"""
CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)"}


class Stage:
    """A gateway with rules over two scripted upstreams."""

    def __init__(self, rules: str, path: str = "dragoman.toml", *, stream: bool = True) -> None:
        whole = Script(headers={"content-type": JSON}, pieces=[CHAT_WHOLE])
        script = Script(pieces=CHAT_STREAM) if stream else whole
        self.upstreams = {name: ScriptedUpstream(script) for name in ("main", "side")}
        config = load(HEAD + rules, path, {})
        self.gateway = Gateway(config, upstreams=self.upstreams, clock=lambda: 1_800_000_000.5)

    def run(self, question: Ask) -> ExchangeResult:
        return run(self.exchange(question))

    async def exchange(self, question: Ask) -> ExchangeResult:
        client = RememberingClient()
        exchange = Exchange(self.gateway, question.plan(1.0), client, question.caller)
        await exchange.run()
        return ExchangeResult(client, exchange.record)

    def sent(self, name: str) -> dict[str, object]:
        value = msgspec.json.decode(self.upstreams[name].calls[-1].body)
        assert isinstance(value, dict)
        return value


def anthropic(**members: object) -> Ask:
    question = ask("anthropic", headers=CLAUDE)
    body = {**msgspec.json.decode(question.body), **members}
    return msgspec.structs.replace(question, body=msgspec.json.encode(body))


def test_the_rule_that_holds_decides_and_is_named() -> None:
    stage = Stage("[[rules]]\nname = 'thinking → side'\ntarget = 'side/deep'\nwhen.thinking = true")
    result = stage.run(anthropic(thinking={"type": "adaptive"}))
    assert result.client.headers["x-dragoman-target"] == "side/deep"
    assert result.client.headers["x-dragoman-rule"] == "thinking ? side"
    assert result.record.line()["rule"] == "thinking → side"
    plain = stage.run(anthropic())
    assert plain.client.headers["x-dragoman-target"] == "main/base"
    assert "x-dragoman-rule" not in plain.client.headers


@pytest.mark.rule("R123")
def test_the_log_tells_roles_classes_and_sub_agents_apart() -> None:
    rules = "[[rules]]\ntarget = 'side/x'\nwhen = {role = 'lead', class = 'turn'}"
    stage = Stage(rules)
    question = anthropic(system="hydra:lead")
    headers = {**CLAUDE, "x-claude-code-agent-id": "a17"}
    metadata = msgspec.structs.replace(question.metadata, headers=headers)
    line = stage.run(msgspec.structs.replace(question, metadata=metadata)).record.line()
    assert (line["sub_agent"], line["role"], line["class"]) == ("a17", "lead", "turn")


@pytest.mark.rule("R134")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_of_the_gateway_calls_no_model(dialect: str, stream: bool) -> None:
    stage = Stage("[[rules]]\nanswer = 'nothing to do'")
    result = stage.run(ask(dialect, stream=stream))
    assert result.client.status == 200
    assert b"nothing to do" in result.client.body
    assert result.client.is_ended
    assert (result.record.ending, result.record.used.total) == ("finished", 0)
    assert not stage.upstreams["main"].calls


@pytest.mark.rule("R134")
def test_only_probes_are_answered_by_the_preset() -> None:
    stage = Stage("[[rules]]\npreset = 'probes'\nanswer = 'OK'")
    probe = anthropic(max_tokens=1, messages=[{"role": "user", "content": "quota"}])
    assert stage.run(probe).record.rule == "probes"
    assert stage.run(anthropic()).record.rule == ""


@pytest.mark.parametrize("asked", ["side/deep", "side,deep", "claude:side/deep", "claude:side,deep"])
def test_a_name_with_its_provider_wins_over_rules(asked: str) -> None:
    """Claude Code lists the models of other vendors with the prefix `claude:`."""
    stage = Stage("[[rules]]\ntarget = 'main/x'")
    result = stage.run(anthropic(model=asked))
    assert (result.client.headers["x-dragoman-target"], result.record.rule) == ("side/deep", "")


def test_the_prefix_of_a_listed_name_is_no_part_of_it() -> None:
    stage = Stage("[[rules]]\ntarget = 'side'\nwhen.model = 'fa*'\n[[routes]]\nmatch='fast'\ntarget='main/x'")
    result = stage.run(anthropic(model="claude:fast"))
    assert result.client.headers["x-dragoman-target"] == "side/fast"
    assert b"claude:fast" in result.client.body


def test_a_rule_can_lead_to_a_route_with_its_settings() -> None:
    stage = Stage(
        "[[rules]]\nroute = 'careful'\n[[routes]]\nmatch = 'careful'\ntarget = 'side'\nstrict = true"
    )
    result = stage.run(anthropic(top_k=3))
    assert (result.client.status, result.record.route) == (400, "careful")


ROUTE_PAYLOAD = """
[[providers.side.payload]]
set = { top_k = 1, seed = 7 }
[[routes]]
match = "careful"
target = "side/x"
[[routes.payload]]
models = "x"
set = { top_k = 2 }
remove = ["seed"]
[[routes.payload]]
models = "other"
set = { top_k = 3 }
[[routes]]
match = "plain"
target = "side/x"
"""


def test_the_payload_rules_of_a_route_follow_those_of_the_provider() -> None:
    stage = Stage(ROUTE_PAYLOAD)
    result = stage.run(anthropic(model="careful"))
    sent = stage.sent("side")
    assert (result.client.status, sent["top_k"], "seed" in sent) == (200, 2, False)
    stage.run(anthropic(model="plain"))
    assert (stage.sent("side")["top_k"], stage.sent("side")["seed"]) == (1, 7)


TAG = "<CCR-SUBAGENT-MODEL>side,small</CCR-SUBAGENT-MODEL>"


def test_a_tag_names_the_model_and_does_not_reach_it() -> None:
    stage = Stage("[[rules]]\npreset = 'tag'")
    result = stage.run(anthropic(system=f"{TAG}You review code."))
    assert result.client.headers["x-dragoman-target"] == "side/small"
    assert "SUBAGENT" not in str(stage.sent("side"))
    assert "You review code." in str(stage.sent("side"))


def write_tagged(dialect: str) -> bytes:
    """A request with the tag at the beginning of the instructions, of a message and inside of one."""
    spoken = [f"{TAG} begins", f"and {TAG} is in the middle"]
    bodies: dict[str, object] = {
        "anthropic": {
            "model": "m",
            "max_tokens": 9,
            "system": [{"type": "text", "text": "You are."}, {"type": "text", "text": f"{TAG}You review."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": each} for each in spoken]}],
        },
        "openai_chat": {
            "model": "m",
            "messages": [
                {"role": "system", "content": f" {TAG}You review."},
                *({"role": "user", "content": each} for each in spoken),
            ],
        },
        "openai_responses": {
            "model": "m",
            "instructions": f"{TAG}You review.",
            "input": [{"role": "user", "content": each} for each in spoken],
        },
        "gemini": {
            "systemInstruction": {"parts": [{"text": f"{TAG}You review."}]},
            "contents": [{"role": "user", "parts": [{"text": each} for each in spoken]}],
        },
    }
    return msgspec.json.encode(bodies[dialect])


@pytest.mark.parametrize("escape", [b"<", b"\\u003c"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_the_tag_of_the_instructions_is_removed(dialect: str, escape: bytes) -> None:
    """Some clients write `<` in JSON as an escape."""
    stage = Stage("[[rules]]\npreset = 'tag'")
    question = ask(dialect)
    body = write_tagged(dialect).replace(b"<", escape)
    result = stage.run(msgspec.structs.replace(question, body=body))
    assert result.client.headers["x-dragoman-target"] == "side/small"
    sent = str(stage.sent("side"))
    assert "You review." in sent
    assert sent.count(TAG) == 2


def test_a_tag_with_an_unknown_provider_changes_nothing() -> None:
    stage = Stage("[[rules]]\npreset = 'tag'")
    text = TAG.replace("side,", "nowhere,")
    assert stage.run(anthropic(system=text)).record.target is not None
    assert "SUBAGENT" in str(stage.sent("main"))


FUNCTION = """
import time

def by_size(request):
    return "side/large" if request.tokens > 5 else None

def slow(request):
    time.sleep(0.3)
    return "side/slow"

def several(request):
    return ["side/one", "main/two"]

def to_route(request):
    return "named"

def broken(request):
    raise ValueError(request.model)

def wrong(request):
    return "nowhere/x"

def leave(request):
    raise SystemExit(3)

def interrupt(request):
    raise KeyboardInterrupt

def number(request):
    return 5

def table(request):
    return {"side/one": 1}

def numbers(request):
    return [1, 2]

def provider(request):
    return "side"
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("by_size", "side/large"),
        ("several", "side/one"),
        ("to_route", "side/routed"),
        ("slow", "main/base"),
        ("broken", "main/base"),
        ("wrong", "main/base"),
        ("missing", "main/base"),
        ("leave", "main/base"),
        ("interrupt", "main/base"),
        ("number", "main/base"),
        ("table", "main/base"),
        ("numbers", "main/base"),
        ("provider", "side/model"),
    ],
)
def test_a_function_chooses_the_target_and_its_failure_does_not_matter(
    name: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(FUNCTION)
    rules = f"[[rules]]\nfunction = 'mine.py:{name}'\ntimeout = {0.05 if name == 'slow' else 30}\n"
    stage = Stage(rules + "[[routes]]\nmatch = 'named'\ntarget = 'side/routed'", str(tmp_path / "c.toml"))
    # The function runs in a thread, which the clock of the other tests does not wait for.
    result = asyncio.run(stage.exchange(anthropic()))
    assert result.client.headers["x-dragoman-target"] == expected


ENDLESS = """
import time
from pathlib import Path

FOLDER = Path(__file__).parent

def choose(request):
    with (FOLDER / "calls").open("a") as calls:
        calls.write("called ")
    while not (FOLDER / "stop").exists():
        time.sleep(0.01)

def other(request):
    return "side/other"
"""


def test_a_function_that_never_returns_costs_few_threads_and_no_other_function(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENDLESS)
    rule = "[[rules]]\nfunction = 'mine.py:{0}'\nwhen.model = '{0}'\n"
    rules = rule.format("choose") + "timeout = 0.01\n" + rule.format("other") + "timeout = 30\n"
    stage = Stage(rules, str(tmp_path / "c.toml"))

    async def ask_all() -> list[str]:
        models = ["choose"] * (MAX_LATE + 3) + ["other"]
        results = [await stage.exchange(anthropic(model=model)) for model in models]
        # A thread that is no daemon would keep the gateway from ending.
        assert all(each.daemon for each in threading.enumerate() if each.name == "dragoman-rule")
        return [result.client.headers["x-dragoman-target"] for result in results]

    try:
        assert asyncio.run(ask_all()) == ["main/base"] * (MAX_LATE + 3) + ["side/other"]
    finally:
        (tmp_path / "stop").touch()
    assert (tmp_path / "calls").read_text().count("called") == MAX_LATE


def test_a_new_configuration_imports_the_functions_again(tmp_path: Path) -> None:
    text = "def choose(request): return 'side/{}'"
    (tmp_path / "mine.py").write_text(text.format("before"))
    stage = Stage("[[rules]]\nfunction = 'mine.py:choose'\ntimeout = 30\n", str(tmp_path / "c.toml"))
    found = []
    for name in ("before", "after it"):
        (tmp_path / "mine.py").write_text(text.format(name))
        stage.gateway.reload(stage.gateway.config)
        found.append(asyncio.run(stage.exchange(anthropic())).client.headers["x-dragoman-target"])
    assert found == ["side/before", "side/after it"]


@pytest.mark.parametrize("text", ["raise SystemExit", "1 / 0", "def choose(:", "raise KeyboardInterrupt"])
def test_the_file_of_a_function_may_be_wrong(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    stage = Stage("[[rules]]\nfunction = 'mine.py:choose'\n", str(tmp_path / "c.toml"))
    result = asyncio.run(stage.exchange(anthropic()))
    assert result.client.headers["x-dragoman-target"] == "main/base"


def test_the_file_of_a_function_is_imported_in_a_thread(tmp_path: Path) -> None:
    name = "import threading\nNAME = threading.current_thread().name\n"
    (tmp_path / "mine.py").write_text(name + "def choose(request): return 'side/' + NAME")
    stage = Stage("[[rules]]\nfunction = 'mine.py:choose'\n", str(tmp_path / "c.toml"))
    result = asyncio.run(stage.exchange(anthropic()))
    assert result.client.headers["x-dragoman-target"].startswith("side/dragoman-rule")


def test_the_effort_of_a_name_reaches_the_model() -> None:
    stage = Stage("[[routes]]\nmatch = 'smart'\ntarget = 'side/gpt-5'\neffort_suffix = true")
    result = stage.run(anthropic(model="smart-high"))
    assert (stage.sent("side")["reasoning_effort"], stage.sent("side")["model"]) == ("high", "gpt-5")
    assert b"smart-high" in result.client.body


OVERFLOW = Script(
    status=400,
    headers={"content-type": JSON},
    pieces=[error("This model's maximum context length is 10 tokens.", code="context_length_exceeded")],
)
CHAT_FILTERED = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]})
CHAT_REFUSAL = data({"choices": [{"index": 0, "delta": {"refusal": "I will not."}}]})
REFUSED = [CHAT_START, CHAT_REFUSAL, CHAT_FILTERED, CHAT_DONE]


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_is_too_long_goes_to_a_larger_model(stream: bool) -> None:
    stage = Stage("[[routes]]\nmatch='*'\ntarget='main/a'\non_overflow='side/large'", stream=stream)
    stage.upstreams["main"]._scripts = [OVERFLOW]
    result = stage.run(ask("anthropic", stream=stream))
    assert (result.client.status, result.client.headers["x-dragoman-target"]) == (200, "side/large")


def test_a_request_that_a_model_refuses_goes_to_another() -> None:
    stage = Stage("[[routes]]\nmatch='*'\ntarget='main/a'\non_refusal='side/other'")
    stage.upstreams["main"]._scripts = [Script(pieces=REFUSED)]
    result = stage.run(ask("anthropic"))
    assert result.client.headers["x-dragoman-target"] == "side/other"
    assert b"I will not" not in result.client.body


def test_a_refusal_reaches_the_client_without_other_targets() -> None:
    stage = Stage("[[routes]]\nmatch='*'\ntarget='main/a'")
    stage.upstreams["main"]._scripts = [Script(pieces=REFUSED)]
    assert b"I will not" in stage.run(ask("openai_chat")).client.body


def test_a_balanced_route_takes_turns_and_a_session_keeps_its_target() -> None:
    stage = Stage("[[routes]]\nmatch='*'\ntarget=['main/a', 'side/b']\norder='round_robin'")

    def answered_by(session: str) -> str:
        question = anthropic()
        headers = {**CLAUDE, "x-claude-code-session-id": session}
        metadata = msgspec.structs.replace(question.metadata, headers=headers)
        result = stage.run(msgspec.structs.replace(question, metadata=metadata))
        return str(result.client.headers["x-dragoman-target"])

    assert [answered_by(name) for name in ("one", "two", "one", "two")] == ["main/a", "side/b"] * 2


def test_the_least_busy_target_is_that_of_all_routes() -> None:
    """Requests of routes that list their targets keep a target busy too."""
    routes = "[[routes]]\nmatch='one'\ntarget='main/a'\n"
    routes += "[[routes]]\nmatch='pool'\ntarget=['main/a', 'side/b']\norder='least_busy'\nsticky=0"
    stage = Stage(routes)
    slow = Script(pieces=[CHAT_START, Wait(60.0), *CHAT_STREAM[1:]])
    stage.upstreams["main"]._scripts = [slow]

    async def ask_both() -> ExchangeResult:
        busy = asyncio.create_task(stage.exchange(anthropic(model="one")))
        await asyncio.sleep(1.0)
        result = await stage.exchange(anthropic(model="pool"))
        await busy
        return result

    assert run(ask_both()).client.headers["x-dragoman-target"] == "side/b"


def test_a_session_does_not_keep_a_target_whose_reply_broke() -> None:
    routes = "[[routes]]\nmatch='pool'\ntarget=['main/a', 'side/b']\norder='round_robin'"
    stage = Stage(routes)
    stage.upstreams["main"]._scripts = [Script(pieces=[*CHAT_STREAM[:2], Break()])]
    question = anthropic(model="pool")
    headers = {**CLAUDE, "x-claude-code-session-id": "s"}
    question = msgspec.structs.replace(
        question, metadata=msgspec.structs.replace(question.metadata, headers=headers)
    )
    assert stage.run(question).record.failure is not None
    assert stage.gateway.balancer._sessions == {}
    assert stage.run(question).client.headers["x-dragoman-target"] == "side/b"
