"""What rules cost: a whole turn of each lane through the gateway, with 20 rules and without.

None of the rules holds, so all of them are compared. `headers` need no body; `bodies` ask for everything that
rules can know of a conversation. `tokens` ask for its length too, which no search finds: the limit is 60,000
tokens, and the bodies have 76 to 113 KB. Instructions are counted, because the cost is far below the noise of
times. Nothing is recorded: the recorder's thread wakes by the clock, so its instructions depend on the load.
The garbage is not collected: a collection takes as much as several turns, and only some of the runs have one.
"""

import asyncio
import gc
import shutil
import sys

from bench.instructions import count_per_turn, run_turns
from dragoman.config.provider import TargetName
from dragoman.config.rules import Rule, RuleConditions

COUNT = 20
GOAL = 1.03
#: The lanes of `bench.instructions` that are measured.
LANES = ("translated", "renamed", "forwarded")
TARGETS = (TargetName("chat", "mock"),)
_BODIES = (
    RuleConditions(classes=("title", "quota")),
    RuleConditions(images="any"),
    RuleConditions(web_search=True),
    RuleConditions(role=("lead",)),
    RuleConditions(called=("NoSuchTool",)),
    RuleConditions(project=("nowhere",)),
)
CONDITIONS = {
    "none": (),
    "headers": (
        RuleConditions(agent=("codex",)),
        RuleConditions(sub_agent=True, agent=("claude-code",)),
        RuleConditions(model=("gpt-*", "*haiku*")),
        RuleConditions(key=("ci*",)),
    ),
    "bodies": _BODIES,
    "bodies and tokens": (*_BODIES, RuleConditions(tokens_over=60_000)),
}


def rules_report() -> list[str]:
    """Instructions per turn by the kind of the rules, and their ratio to a turn without rules."""
    if not shutil.which("valgrind"):
        return ["Rules: valgrind is not installed (Debian: apt install valgrind)"]
    lines = [f"Rules, millions of instructions per turn (goal: at most {GOAL:.2f} of a turn without)"]
    for lane in LANES:
        counts = {kind: count_per_turn("bench.rules", f"{lane}:{kind}") for kind in CONDITIONS}
        for kind, count in counts.items():
            name = f"{lane}, {f'{COUNT} rules about {kind}' if CONDITIONS[kind] else 'no rules'}"
            lines.append(f"  {name:<36}{count / 1e6:>10.2f} {count / counts['none']:>8.3f}")
    return lines


def build_rules(kind: str) -> tuple[Rule, ...]:
    """The rules of a kind: its conditions in turn."""
    conditions = CONDITIONS[kind]
    chosen = [conditions[number % len(conditions)] for number in range(COUNT)] if conditions else []
    return tuple(Rule(name=str(number), when=when, targets=TARGETS) for number, when in enumerate(chosen))


if __name__ == "__main__":
    gc.disable()
    lane, _, kind = sys.argv[1].partition(":")
    asyncio.run(run_turns(lane, int(sys.argv[2]), build_rules(kind), "off"))
