"""Real agents finish a job with a model that cannot write a call properly; ungoverned they do not."""

import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from dragoman.hub.blocks import ToolCall
from tests.e2e.agent_scenario import prepare
from tests.e2e.bad_model import (
    LAST_WORDS,
    BadModel,
    IntendedCall,
    ModelReply,
    Slip,
    dies,
    doubled,
    fenced,
    proper,
    single_quotes,
    unfinished,
    wrong_case,
)
from tests.e2e.clients.claude import CLAUDE_CODE
from tests.e2e.clients.client import CLIENT_KEY, AgentTask, Client, Outcome
from tests.e2e.clients.codex import CODEX_PLAIN
from tests.e2e.environment import Environment
from tests.governance.harvest.running import harvested

TEMPLATES = tomllib.loads(
    (Path(__file__).resolve().parent.parent / "governance" / "harvest" / "templates.toml").read_text("utf-8")
)
AGENTS = (CLAUDE_CODE, CODEX_PLAIN)

PROVIDER = """\
[providers.local]
dialect = "openai_chat"
base_url = "{url}"
retries = 1
"""
UNGOVERNED = """
[[routes]]
match = "*"
target = "local/bad"

[routes.governance]
tools = "live"
"""
GOVERNED = """
[[routes]]
match = "*-{harvest}"
target = "local/bad"

[routes.governance]
tools = "hold"
harvest = "{harvest}"
rename = true
dedupe = true
"""


CONTRACT = """
[[routes]]
match = "*-contract"
target = "local/bad"

[routes.governance]
contract = true
"""
GUARDED = """
[[routes]]
match = "*-guarded"
target = "local/bad"

[routes.governance]
tools = "hold"
on_denied = "model"
guard = [{ name = "no-deleting", command = ["rm"], verdict = "deny", reason = "nothing is deleted here" }]
"""
FORBIDDEN = "echo deleted >> trail.txt; rm -f notes.txt"


def reply(kind: str, template: str, call: IntendedCall) -> ModelReply:
    """The call as a family of models writes it, in plain text."""
    ways = {"json": call.arguments, "raw": call.command, "python": repr(call.command)}
    named = template.replace("search", call.tool).replace("query", call.argument)
    # A call without a marker is only harvested if it is the whole text.
    before = "" if template.startswith(("{", "[")) else "I will do it.\n"
    return ModelReply(text=before + named.replace("%s", ways[kind]))


def by_family() -> dict[str, Slip]:
    found: dict[str, Slip] = {}
    for kind, templates in TEMPLATES.items():
        for family, template in templates.items():
            if family != "auto":
                found.setdefault(family, partial(reply, kind, template))
    return found


FAMILIES = by_family()


def is_plain(slip: Slip) -> bool:
    """Whether the call is found without a configured family."""
    reply = slip(IntendedCall("search", "query", "ls"))
    return any(isinstance(block, ToolCall) for block in harvested("auto", [reply.text]).blocks)


PLAIN = [family for family, slip in FAMILIES.items() if is_plain(slip)]
NAMED = [family for family in FAMILIES if family not in PLAIN]
SLIPS: dict[str, Slip] = {
    "single-quotes": single_quotes,
    "unfinished": unfinished,
    "doubled": doubled,
    "wrong-case": wrong_case,
    "fenced": fenced,
}


def forbidden(call: IntendedCall) -> ModelReply:
    """A proper call of something that must not be run."""
    return proper(call)


@pytest.fixture(scope="module")
def model(environment: Environment) -> Iterator[BadModel]:
    model = BadModel()
    environment.run(model.start())
    yield model
    environment.run(model.stop())


class Work(msgspec.Struct, frozen=True):
    outcome: Outcome
    trail: list[str]
    wanted: list[str]

    @property
    def is_done(self) -> bool:
        return (
            self.outcome.exit == 0 and self.outcome.text.strip() == LAST_WORDS and self.trail == self.wanted
        )


def work(
    environment: Environment,
    model: BadModel,
    agent: Client,
    slips: Sequence[Slip],
    home: Path,
    *,
    harvest: str,
) -> Work:
    """Let the agent do a job of one command for each slip."""
    governed = [GOVERNED.format(harvest=each) for each in ("auto", *NAMED)]
    routes = [*governed, CONTRACT, GUARDED] if harvest else [UNGOVERNED]
    config = PROVIDER.format(url=model.url) + "".join(routes)
    gateway = environment.gateway(f"bad-{'governed' if harvest else 'ungoverned'}", config)
    silent: dict[Slip, str] = {dies: "echo half >> trail.txt; echo never", forbidden: FORBIDDEN}
    words = [f"word-{number}" for number, slip in enumerate(slips) if slip not in silent]
    left = iter(words)
    commands = [silent.get(slip) or f"echo {next(left)} >> trail.txt" for slip in slips]
    job = model.hire(slips, commands, agent.grips)
    project = prepare(home)
    task = AgentTask(
        url=gateway.url,
        key=CLIENT_KEY,
        prompt=f"This is {job.key}. Do what is to be done.",
        home=home,
        project=project,
        model=f"some-model-{harvest}",
    )

    async def run() -> Outcome:
        return await agent.run(agent, task)

    outcome = environment.run(run())
    trail = project / "trail.txt"
    return Work(outcome, trail.read_text("utf-8").split() if trail.exists() else [], words)


@pytest.mark.parametrize("kind", ["slips", "wrappers"])
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_with_governance_the_agent_finishes_a_job_of_every_slip_and_wrapper(
    environment: Environment, model: BadModel, agent: Client, kind: str, tmp_path: Path
) -> None:
    """In jobs of their own: a server that makes calls itself is not harvested under `auto`."""
    slips = [*SLIPS.values(), dies] if kind == "slips" else [FAMILIES[family] for family in PLAIN]
    done = work(environment, model, agent, slips, tmp_path / "home", harvest="auto")
    assert done.trail == done.wanted
    assert done.is_done, done.outcome.output[-2000:]


@pytest.mark.parametrize("family", NAMED)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_with_its_family_named_the_agent_finishes_too(
    environment: Environment, model: BadModel, agent: Client, family: str, tmp_path: Path
) -> None:
    done = work(environment, model, agent, [FAMILIES[family]] * 2, tmp_path / "home", harvest=family)
    assert done.is_done, (done.trail, done.outcome.output[-2000:])


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_model_without_function_calling_drives_the_agent(
    environment: Environment, model: BadModel, agent: Client, tmp_path: Path
) -> None:
    done = work(environment, model, agent, [FAMILIES["hermes"]] * 3, tmp_path / "home", harvest="contract")
    assert done.is_done, (done.trail, done.outcome.output[-2000:])


@pytest.mark.rule("R87")
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_denied_command_never_runs_and_the_model_goes_on(
    environment: Environment, model: BadModel, agent: Client, tmp_path: Path
) -> None:
    slips = [proper, forbidden, proper, forbidden, forbidden, proper]
    done = work(environment, model, agent, slips, tmp_path / "home", harvest="guarded")
    assert done.is_done, (done.trail, done.outcome.output[-2000:])
    assert "deleted" not in done.trail


@pytest.mark.parametrize("name", [*SLIPS, "named_family"])
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_without_governance_each_slip_alone_spoils_the_job(
    environment: Environment, model: BadModel, agent: Client, name: str, tmp_path: Path
) -> None:
    slip = SLIPS.get(name, FAMILIES["hermes"])
    assert not work(environment, model, agent, [slip] * 2, tmp_path / "home", harvest="").is_done
