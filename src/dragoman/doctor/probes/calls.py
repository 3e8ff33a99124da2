"""Does it call a tool, and go on from the result?"""

from dragoman.doctor.heard import Heard
from dragoman.doctor.probe import Outcome, Probe, quoted, refused, works, wrong
from dragoman.doctor.probes.tools import PROOF, REPORT, WEATHER, call_of
from dragoman.doctor.talk import Talk, answered, user
from dragoman.doctor.written import family_of

#: What each dialect's servers say when they stopped to let a tool be called.
CALLING = frozenset({"tool_calls", "tool_use", "function_call", "STOP", "completed", ""})


async def run(talk: Talk) -> Outcome:
    question = user(f"Please {call_of('get_weather', city='Paris')}. Then tell me the degrees.")
    heard = await talk.ask(question, tools=[WEATHER])
    if failed := refused(heard):
        return failed
    if not heard.calls:
        return _no_call(heard)
    (call, *_) = heard.calls
    if call.name != "get_weather" or "paris" not in str(call.input.get("city", "")).lower():
        return wrong(f"the call is not what was asked for: {quoted(f'{call.name} {call.input}')}")
    end = heard.raw_ending()
    helped = () if end in CALLING else (f"it stops with {quoted(end)} although it calls: told as a call",)
    closing = await talk.ask(question, *answered(heard, get_weather=REPORT), tools=[WEATHER])
    if failed := refused(closing):
        return failed
    if PROOF not in closing.text:
        return wrong(f"the result of the call is not in the answer: {quoted(closing.text)}")
    return works(closing, "", *helped)


def _no_call(heard: Heard) -> Outcome:
    family = family_of(heard.text, WEATHER)
    if family:
        return wrong(
            f"calls are written as plain text, in the way of {family}",
            advice=f'harvest = "{family}" below [governance] makes calls of them',
            facts={"call_family": family},
        )
    return wrong(
        f"no call was made; it said {quoted(heard.text)}",
        advice="contract = true below [governance] explains the tools in words",
    )


PROBE = Probe(
    name="tools",
    asks="a call, and an answer from its result",
    run=run,
    needs=("answers",),
    advice="contract = true below [governance] explains the tools in words",
)
