"""Can it make two calls at once?"""

from dragoman.doctor.probe import Outcome, Probe, refused, works, wrong
from dragoman.doctor.probes.tools import REPORT, WEATHER, call_of
from dragoman.doctor.talk import Talk, answered, user


async def run(talk: Talk) -> Outcome:
    paris, rome = call_of("get_weather", city="Paris"), call_of("get_weather", city="Rome")
    question = user(f"Please {paris} and {rome}, both at once.")
    heard = await talk.ask(question, tools=[WEATHER])
    if failed := refused(heard):
        return failed
    if len(heard.calls) < 2:
        return wrong(
            f"{len(heard.calls)} of 2 calls came", advice="it works one call at a time, with more turns"
        )
    closing = await talk.ask(question, *answered(heard, get_weather=REPORT), tools=[WEATHER])
    return refused(closing) or works(closing)


PROBE = Probe(
    name="parallel calls", asks="two calls in one turn, and sends both results", run=run, needs=("tools",)
)
