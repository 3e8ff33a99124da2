"""OpenCode, with each of the four AI SDK providers that it bundles."""

import msgspec

from tests.e2e.clients.client import BINARIES, AgentTask, Client, Outcome, execute, json_lines, write
from tests.e2e.upstream.script import Grip

GRIPS = {
    "read": Grip(tool="read", argument="filePath"),
    "image": Grip(tool="read", argument="filePath"),
    "run": Grip(tool="bash", argument="command", more={"description": "Do it"}),
}
PROVIDERS = {
    "openai_chat": ("@ai-sdk/openai-compatible", "/v1"),
    "anthropic": ("@ai-sdk/anthropic", "/v1"),
    "openai_responses": ("@ai-sdk/openai", "/v1"),
    "gemini": ("@ai-sdk/google", "/v1beta"),
}


def _config(client: Client, task: AgentTask) -> str:
    package, version = PROVIDERS[client.dialect]
    model = {
        "name": "Model",
        "reasoning": True,
        "tool_call": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 200000, "output": 32000},
    }
    provider = {
        "npm": package,
        "name": "Gateway",
        "options": {"baseURL": f"{task.url}{version}", "apiKey": task.key},
        "models": {task.model: model},
    }
    config = {"autoupdate": False, "share": "disabled", "provider": {"gateway": provider}}
    return msgspec.json.encode(config).decode()


async def run(client: Client, task: AgentTask) -> Outcome:
    write(task.home / ".config" / "opencode" / "opencode.json", _config(client, task))
    options = ["run", "--format", "json", "--auto", "-m", f"gateway/{task.model}"]
    options += ["--continue"] if task.resumes else []
    command = [str(BINARIES / "opencode"), *options, task.prompt]
    environment = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    status, out, err = await execute(command, task, environment)
    return Outcome(exit=status, text=_last_words(out), output=out + err)


def _last_words(output: str) -> str:
    words = ""
    for line in json_lines(output):
        part = line.get("part")
        if line.get("type") == "text" and isinstance(part, dict):
            words = str(part.get("text", ""))
    return words


def opencode(dialect: str, model: str, *, carries_seals: bool = True) -> Client:
    return Client(
        name=f"opencode-{dialect}",
        dialect=dialect,
        model=model,
        grips=GRIPS,
        run=run,
        carries_seals=carries_seals,
    )


OPENCODE = (
    opencode("openai_chat", "some-model", carries_seals=False),
    opencode("anthropic", "claude-sonnet-4-5"),
    opencode("openai_responses", "gpt-5.5"),
    opencode("gemini", "gemini-3-pro-preview"),
)
