"""Codex, in the three tool layouts that it chooses by the model's name."""

from tests.e2e.clients.client import BINARIES, AgentTask, Client, Outcome, execute, json_lines, write
from tests.e2e.upstream.script import Grip

CONFIG = """\
model_provider = "gateway"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
"""
SHELL = {
    "read": Grip(tool="exec_command", argument="cmd", template="cat {}"),
    "run": Grip(tool="exec_command", argument="cmd"),
    "image": Grip(tool="view_image", argument="path"),
}
PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+{}\n*** End Patch\n"
WITH_PATCH = SHELL | {"patch": Grip(tool="apply_patch", template=PATCH)}
SCRIPT = 'const result = await tools.exec_command({cmd: "{}"});\ntext(result.output);\n'
CODE = {
    "read": Grip(tool="exec", template=SCRIPT.replace("{}", "cat {}")),
    "run": Grip(tool="exec", template=SCRIPT),
}


#: Its own provider under another address: it uses a WebSocket.
BUILT_IN = """\
openai_base_url = "{url}/v1"
check_for_update_on_startup = false
[analytics]
enabled = false
"""


#: More than the first request takes, and less than it takes with the output of a long command.
FEW_TOKENS = 18_000


async def run(client: Client, task: AgentTask) -> Outcome:
    return await _run(task, CONFIG)


async def run_built_in(client: Client, task: AgentTask) -> Outcome:
    return await _run(task, BUILT_IN)


async def run_compacting(client: Client, task: AgentTask) -> Outcome:
    """With room for the first few turns only."""
    return await _run(task, f"model_auto_compact_token_limit = {FEW_TOKENS}\n{BUILT_IN}")


async def _run(task: AgentTask, config: str) -> Outcome:
    folder = task.home / ".codex"
    write(folder / "config.toml", config.replace("{url}", task.url))
    last = task.home / "last-message.txt"
    options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    options += ["-m", task.model, "-o", str(last)]
    again = ["resume", "--last", *options, task.prompt]
    begin = [*options, "-i", "pixel.png", "--", task.prompt]
    command = [str(BINARIES / "codex"), "exec", *(again if task.resumes else begin)]
    environment = {"CODEX_HOME": str(folder), "GATEWAY_KEY": task.key, "CODEX_API_KEY": task.key}
    status, out, err = await execute(command, task, environment)
    text = last.read_text(encoding="utf-8") if last.exists() else ""
    if not json_lines(out):
        text = ""
    return Outcome(exit=status, text=text, output=out + err)


def codex(
    name: str, model: str, grips: dict[str, Grip], *, is_parallel: bool = True, is_built_in: bool = False
) -> Client:
    return Client(
        name=name,
        dialect="openai_responses",
        model=model,
        grips=grips,
        run=run_built_in if is_built_in else run,
        is_parallel=is_parallel,
    )


CODEX_PLAIN = codex("codex-unknown-model", "some-model", SHELL)
CODEX_PATCHING = codex("codex-gpt-5.5", "gpt-5.5", WITH_PATCH)
CODEX_SCRIPTING = codex("codex-gpt-6.1-sol", "gpt-6.1-sol", CODE, is_parallel=False)
CODEX_ON_SOCKETS = (
    codex("codex-websocket-gpt-5.5", "gpt-5.5", WITH_PATCH, is_built_in=True),
    codex("codex-websocket-gpt-6.1-sol", "gpt-6.1-sol", CODE, is_parallel=False, is_built_in=True),
)
CODEX_COMPACTING = Client(
    name="codex-compacting",
    dialect="openai_responses",
    model="gpt-5.5",
    grips=WITH_PATCH,
    run=run_compacting,
)
