"""Gemini CLI."""

from tests.e2e.clients.client import BINARIES, AgentTask, Client, Outcome, execute, json_lines, write
from tests.e2e.upstream.script import Grip

GRIPS = {
    "read": Grip(tool="read_file", argument="file_path"),
    "image": Grip(tool="read_file", argument="file_path"),
    "run": Grip(tool="run_shell_command", argument="command"),
}
SETTINGS = """{"security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": false},
"privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}}"""


async def run(client: Client, task: AgentTask) -> Outcome:
    write(task.home / ".gemini" / "settings.json", SETTINGS)
    options = ["-m", task.model, "-o", "stream-json", "--yolo"]
    options += ["--resume", "latest"] if task.resumes else []
    command = [str(BINARIES / "gemini"), *options, "-p", task.prompt]
    environment = {
        "GEMINI_API_KEY": task.key,
        "GOOGLE_GEMINI_BASE_URL": task.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    status, out, err = await execute(command, task, environment)
    return Outcome(exit=status, text=_last_words(out), output=out + err)


def _last_words(output: str) -> str:
    """The assistant's text after its last tool result."""
    words = ""
    for line in json_lines(output):
        if line.get("type") == "tool_result":
            words = ""
        elif line.get("type") == "message" and line.get("role") == "assistant":
            words += str(line.get("content", ""))
    return words


GEMINI_CLI = Client(name="gemini-cli", dialect="gemini", model="gemini-3-pro-preview", grips=GRIPS, run=run)
GEMINI_CLI_OLDER = Client(
    name="gemini-cli-2.5", dialect="gemini", model="gemini-2.5-pro", grips=GRIPS, run=run
)
