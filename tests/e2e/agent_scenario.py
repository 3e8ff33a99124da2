"""The scenario that agents run: text, single, failing and parallel calls, reasoning, an image, a loop.

The model asks for real work in the client's own tools; what the work left behind is looked at afterwards.
"""

import base64
from pathlib import Path

import msgspec

from tests.e2e.clients.client import AgentTask, Client, Outcome
from tests.e2e.environment import Environment
from tests.e2e.upstream.conversation import Conversation
from tests.e2e.upstream.script import Manner, Step, Turn, Use

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mMwTpsJAAICATNoejH4AAAAAElFTkSuQmCC"
NOTES = "the notes say marzipan"
LAST_WORDS = "All done: the notes say marzipan."
LONG_LOOP = 5


class ScenarioRun(msgspec.Struct, frozen=True):
    """What happened in one run of the scenario."""

    client: Client
    outcome: Outcome
    conversation: Conversation
    project: Path
    steps: tuple[Step, ...]

    def trail(self) -> list[str]:
        """What the client's tools wrote, in order."""
        path = self.project / "trail.txt"
        return path.read_text(encoding="utf-8").split() if path.exists() else []


def steps_for(client: Client, project: Path) -> tuple[Step, ...]:
    def leave(word: str) -> Use:
        return Use("run", f"echo {word} >> trail.txt")

    picture = (Use("image", str(project / "pixel.png")),) if client.is_parallel else ()
    patch = (Turn(uses=(Use("patch", "patched"),)),) if "patch" in client.grips else ()
    note = (Turn(uses=(Use("note", "alpha"),)),) if "note" in client.grips else ()
    loop = tuple(
        Turn(reasoning=f"Step {number} is next." if number % 2 else "", uses=(leave(f"step-{number}"),))
        for number in range(LONG_LOOP)
    )
    return (
        Turn(
            text="I will read the notes.",
            reasoning="The notes come first.",
            uses=(Use("read", str(project / "notes.txt")),),
        ),
        Turn(uses=(Use("read", str(project / "missing.txt")),)),
        Turn(
            text="One file is missing. Two things at once.",
            reasoning="These two do not depend on each other.",
            uses=(leave("both"), *picture),
        ),
        *patch,
        *note,
        *loop,
        Turn(text=LAST_WORDS, reasoning="Nothing is left to do."),
    )


def prepare(home: Path) -> Path:
    """The folder that the agent works in."""
    project = home / "project"
    project.mkdir(parents=True)
    (project / "notes.txt").write_text(NOTES + "\n", encoding="utf-8")
    (project / "pixel.png").write_bytes(base64.b64decode(PIXEL))
    return project


def run_scenario(
    environment: Environment,
    client: Client,
    url: str,
    key: str,
    home: Path,
    *,
    steps: tuple[Step, ...] = (),
    tool_prefix: str = "",
) -> ScenarioRun:
    """Run a client through the scenario, or through other steps."""
    project = prepare(home)
    steps = steps or steps_for(client, project)
    # The helper of OpenAI's JavaScript SDK takes a change of index for the end of a call, so that a client
    # with the dialect Chat is spared this habit of some servers.
    manner = Manner(interleaved=client.dialect != "openai_chat")
    conversation = environment.upstream.open(steps, client.grips, manner)
    task = AgentTask(
        url=url,
        key=key,
        prompt=f"This is {conversation.key}. Read the notes and do what is to be done.",
        home=home,
        project=project,
        model=client.model,
        tool_prefix=tool_prefix,
    )
    outcome = environment.run(_run(client, task))
    return ScenarioRun(client, outcome, conversation, project, steps)


async def _run(client: Client, task: AgentTask) -> Outcome:
    return await client.run(client, task)
