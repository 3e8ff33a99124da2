"""What rules cost: the translation of a request and of its reply's stream, with 20 rules and without.

None of the rules holds, so all of them are compared. `headers` need no body; `bodies` ask for everything that
rules can know of a conversation.
"""

from datetime import datetime

from bench.measure import compare
from bench.payloads import agent_request, chat_stream
from dragoman import StreamTranslator
from dragoman.config.provider import Provider
from dragoman.config.rules import Rule, RuleConditions
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.routing.rules import CompiledRule, compile_rules, find_match
from dragoman.routing.traits import RequestTraits

COUNT = 20
GOAL = 1.03
HEADERS = {"user-agent": "claude-cli/2.1.325 (external, cli)", "x-claude-code-session-id": "bench"}
MARKERS = {"lead": ("hydra:lead",)}
PROVIDER = Provider(name="p", dialect="openai_chat", base_url="http://127.0.0.1:9")
BY_HEADER = (
    RuleConditions(agent=("codex",)),
    RuleConditions(sub_agent=True, agent=("claude-code",)),
    RuleConditions(model=("gpt-*", "*haiku*")),
    RuleConditions(key=("ci*",)),
)
BY_BODY = (
    RuleConditions(classes=("title", "quota")),
    RuleConditions(tokens_over=10_000_000),
    RuleConditions(images="any"),
    RuleConditions(web_search=True),
    RuleConditions(role=("lead",)),
    RuleConditions(called=("NoSuchTool",)),
    RuleConditions(project=("nowhere",)),
)


def rules_report() -> list[str]:
    body, chunks = agent_request(), chat_stream()

    def run_turn(rules: tuple[CompiledRule, ...]) -> None:
        plan = RequestPlan(RequestMetadata(dialect="anthropic", headers=HEADERS, request_id="r"), body)
        plan.peek()
        if rules:
            traits = RequestTraits(plan, roles=MARKERS, clock=datetime.now)
            if find_match(rules, traits) is not None:
                raise AssertionError("a rule holds, so that the others are not compared")
        plan.build_target_request(PROVIDER, "m")
        translator = StreamTranslator(source="openai_chat", target="anthropic")
        for chunk in chunks:
            translator.feed(chunk)
        translator.close()

    headers, bodies = (_compile(each) for each in (BY_HEADER, BY_BODY))
    results = compare(
        lambda: run_turn(()),
        {
            f"{COUNT} rules, headers": lambda: run_turn(headers),
            f"{COUNT} rules, bodies": lambda: run_turn(bodies),
        },
        units=1,
    )
    lines = [f"Rules, per turn of a 100 KB request and its stream (goal: at most {GOAL:.2f})"]
    names = {"": "without rules"}
    lines += [
        f"  {names.get(name, name):<24}{result.micros:>10.0f} µs {result.ratio:>8.3f}"
        for name, result in results.items()
    ]
    return lines


def _compile(conditions: tuple[RuleConditions, ...]) -> tuple[CompiledRule, ...]:
    chosen = [conditions[number % len(conditions)] for number in range(COUNT)]
    return compile_rules([Rule(name=str(number), when=when) for number, when in enumerate(chosen)])
