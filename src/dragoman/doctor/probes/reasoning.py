"""Does it reason when asked to, and take its reasoning back?"""

from dragoman.doctor.probe import Outcome, Probe, Remedy, absent, refused, works, wrong
from dragoman.doctor.probes.tools import REPORT, WEATHER, call_of
from dragoman.doctor.talk import Talk, answered, user
from dragoman.doctor.written import reasons_in_text

ROOM = 3_072
THINKING = {"type": "enabled", "budget_tokens": 1_024, "display": "summarized"}
NO_REASONING = Remedy({"reasoning": "none"}, "the wish is dropped, and told as a loss", settles=True)


async def reason(talk: Talk) -> Outcome:
    heard = await talk.ask(user("Please think. What is 17 times 23?"), room=ROOM, thinking=THINKING)
    if failed := refused(heard):
        return failed
    if reasons_in_text(heard.text):
        return wrong(
            "its reasoning stands in the answer, between tags",
            advice='harvest = "auto", or the name of its family, below [governance] takes it out',
        )
    if heard.thinking:
        return works(heard, "shown")
    if heard.usage.reasoning:
        return works(heard, f"{heard.usage.reasoning} tokens, not shown")
    return absent("it shows no reasoning")


async def replay(talk: Talk) -> Outcome:
    question = user(f"Please think, and {call_of('get_weather', city='Paris')}.")
    heard = await talk.ask(question, room=ROOM, thinking=THINKING, tools=[WEATHER])
    if failed := refused(heard):
        return failed
    if not heard.calls:
        return absent("no call was made while it reasoned")
    turns = answered(heard, get_weather=REPORT)
    closing = await talk.ask(question, *turns, room=ROOM, thinking=THINKING, tools=[WEATHER])
    return refused(closing) or works(closing, "" if heard.thinking else "there was none to take back")


REASONING = Probe(
    name="reasoning",
    asks="a small sum, to be thought about",
    run=reason,
    needs=("answers",),
    remedies=(
        Remedy({"efforts": ["low", "medium", "high"]}, "efforts are kept to low, medium and high"),
        NO_REASONING,
    ),
)
REPLAY = Probe(
    name="reasoning replay",
    asks="a call made while reasoning, and sends the turn back",
    run=replay,
    needs=("tools", "reasoning"),
    remedies=(
        Remedy({"replay_reasoning": True}, "the reasoning of earlier turns is sent back"),
        Remedy({"calls_need_reasoning": True}, "calls without their reasoning are not reasoned about"),
        NO_REASONING,
    ),
)
