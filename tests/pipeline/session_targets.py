"""What the targets of generated sessions are: facts about their models, and governance. Chosen by a seed."""

import random
from typing import Any

from dragoman.governance.settings import Governance, read_governance

Json = dict[str, Any]

UNGOVERNED = Governance()

#: Facts that change how a history is translated. A session has a few of them.
FACTS: tuple[Json, ...] = (
    {"system": "user"},
    {"system": "inline"},
    {"system": "leading", "developer_role": False},
    {"alternation": True, "joins_text": True},
    {"alternation": True},
    {"user_first": True},
    {"blank_text": False},
    {"strict_results": True, "result_names": True},
    {"strict_results": False},
    {"call_id_limit": 20},
    {"call_id_exact": 9, "call_id_extra": ""},
    {"repeated_calls": True},
    {"caching": "breakpoints"},
    {"caching": "key"},
    {"caching": "none"},
    {"history_needs_tools": True},
    {"replay_reasoning": True},
    {"turns_need_reasoning": True},
    {"calls_need_reasoning": True, "reasoning": "budget"},
    {"images": False},
    {"media_in_results": False},
    {"outputs": ["text"]},
    {"prefill": False},
    {"tool_name_limit": 12, "tool_name_extra": ""},
    {"refused_fields": ["temperature", "messages.*.name", "tools"]},
)

#: Values of each setting of governance. `None` leaves it out.
SETTINGS: dict[str, tuple[object, ...]] = {
    "tools": ("hold", "hold", "auto", None),
    "harvest": ("auto", "model", "hermes", None, None),
    "rename": (True, None),
    "dedupe": (True, None),
    "validate": (True, None),
    "repair": (False, None, None),
    "on_unrepairable": ("error", "raw", None, None),
    "hold_seconds": (2, None, None),
    "snapshots": (True, None, None, None),
    "choice": ("auto", "required", None, None, None),
    "exit": (False, None, None),
    "contract": (True, None, None, None, None),
    "guard": (["git_destructive"], None, None),
    "on_denied": ("model", None),
}


def choose_facts(seed: int) -> Json:
    """The facts that are stated about the target of a session; of half the sessions none are."""
    chooser = random.Random(seed)  # noqa: S311 (not for secrets)
    chosen = chooser.sample(FACTS, chooser.choice((0, 0, 0, 1, 2, 4)))
    return {name: value for facts in chosen for name, value in facts.items()}


def choose_governance(seed: int) -> Governance:
    """The governance of a session: none, the default for local servers, or settings of all kinds."""
    chooser = random.Random(seed)  # noqa: S311 (not for secrets)
    roll = chooser.random()
    if roll < 0.3:
        return UNGOVERNED
    if roll < 0.5:
        return Governance(tools="hold", harvest="auto", rename=True)
    chosen = {name: chooser.choice(values) for name, values in SETTINGS.items()}
    return read_governance({name: value for name, value in chosen.items() if value is not None})
