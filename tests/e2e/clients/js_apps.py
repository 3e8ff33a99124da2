"""Small agents on the JavaScript SDKs, each a program for Node."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.e2e.clients.client import CLIENTS, AgentTask, Client, Outcome, execute
from tests.e2e.clients.python_tools import GRIPS

PROGRAMS = Path(__file__).resolve().parents[1] / "js"


async def _run(program: str, dialect: str, task: AgentTask) -> Outcome:
    # Node looks for packages beside the program, so the program goes where the packages can be linked.
    for source in (PROGRAMS / program, PROGRAMS / "tools.mjs"):
        shutil.copy(source, task.home)
    (task.home / "node_modules").symlink_to(CLIENTS / "node_modules")
    environment = {
        "URL_ROOT": task.url,
        "KEY": task.key,
        "MODEL": task.model,
        "PROMPT": task.prompt,
        "DIALECT": dialect,
    }
    command = [str(CLIENTS / "bin" / "node"), str(task.home / program)]
    status, out, err = await execute(command, task, environment)
    return Outcome(exit=status, text=out.strip(), output=out + err)


async def run_vendor(client: Client, task: AgentTask) -> Outcome:
    return await _run(f"{client.dialect}.mjs", client.dialect, task)


async def run_ai_sdk(client: Client, task: AgentTask) -> Outcome:
    return await _run("ai_sdk.mjs", client.dialect, task)


MODELS = {
    "anthropic": "some-model",
    "openai_chat": "some-model",
    "openai_responses": "gpt-5.5",
    "gemini": "gemini-3-pro-preview",
}


def _build_apps(prefix: str, run: Callable[[Client, AgentTask], Awaitable[Outcome]]) -> tuple[Client, ...]:
    return tuple(
        Client(
            name=f"{prefix}-{dialect}",
            dialect=dialect,
            model=model,
            grips=GRIPS,
            run=run,
            carries_seals=dialect != "openai_chat",
        )
        for dialect, model in MODELS.items()
    )


JS_APPS = _build_apps("js", run_vendor)
AI_SDK_APPS = _build_apps("ai-sdk", run_ai_sdk)
