"""Prompt rules tried on recorded sessions: each prompt is compared with the one that it continues."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.prompts import PromptRule
from dragoman.config.rules import RuleConditions
from dragoman.records import reading
from dragoman.records.preview import PromptPreview, preview_session, preview_turn
from tests.cli.run_command import dragoman
from tests.records.recorded_gateway import CLAUDE, RecordedGateway, ask

#: A rule whose condition begins to hold within the conversation, and one that always holds.
UNSTABLE = PromptRule(name="late", operation="append", text="!", when=RuleConditions(tokens_over=200))
STABLE = PromptRule(name="always", operation="append", text="!")


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedGateway:
    """A session whose main agent has three turns; a sub-agent asks something between the second and third."""
    recorded = RecordedGateway(tmp_path)
    words = "a long text of the user " * 40

    async def run() -> None:
        messages: list[dict[str, Any]] = []
        for number, text in enumerate(("hello", "go on", words)):
            if number == 2:
                helper = {**CLAUDE, "x-claude-code-agent-id": "helper"}
                await recorded.send(ask([{"role": "user", "content": "look"}], system="s"), headers=helper)
            messages.append({"role": "user", "content": text})
            await recorded.send(ask(messages, system="be kind"))
            messages.append({"role": "assistant", "content": "ok"})
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    return recorded


def preview(recorded: RecordedGateway, rule: PromptRule) -> list[PromptPreview]:
    config = msgspec.structs.replace(recorded.config, prompts=(rule,))
    return recorded.read(preview_session, "session-1", config)


def test_a_rule_that_breaks_a_prompt_is_found_behind_the_turn_of_a_sub_agent(
    recorded: RecordedGateway,
) -> None:
    found = preview(recorded, UNSTABLE)
    assert [(each.number, each.rules) for each in found] == [(1, []), (2, []), (3, []), (4, ["late"])]
    assert [each.broken is not None for each in found] == [False, False, False, True]
    assert not any(each.broken for each in preview(recorded, STABLE))


def test_one_turn_is_compared_with_those_before_it(recorded: RecordedGateway, tmp_path: Path) -> None:
    config = msgspec.structs.replace(recorded.config, prompts=(UNSTABLE,))
    found = recorded.read(preview_turn, "session-1", 4, config)
    assert found.broken is not None
    assert found.broken.path == "system"
    (tmp_path / "dragoman.toml").write_text(
        f'[server]\nstate = "{tmp_path}"\n[[prompts]]\nname = "late"\noperation = "append"\ntext = "!"\n'
        "when = { tokens_over = 200 }\n",
        "utf-8",
    )
    tried = dragoman(tmp_path, "prompts", "try", "last", "4")
    assert dragoman(tmp_path, "rules", "try", "last", "4").out == tried.out
    assert (tried.code, "the prompt cache would miss" in tried.out) == (1, True), tried.err
    unknown = dragoman(tmp_path, "prompts", "try", "last", "9")
    assert (unknown.code, "has no turn 9" in unknown.err) == (2, True)


def test_sessions_that_are_longer_than_one_page_are_read_whole(
    recorded: RecordedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_ROWS", 3)
    assert len(preview(recorded, STABLE)) == 4
