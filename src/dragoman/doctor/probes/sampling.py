"""Does it take a temperature?"""

from dragoman.doctor.probe import Outcome, Probe, Remedy, refused, works
from dragoman.doctor.talk import Talk, user


async def run(talk: Talk) -> Outcome:
    heard = await talk.ask(user('Please say "pong".'), temperature=0.5)
    return refused(heard) or works(heard)


PROBE = Probe(
    name="temperature",
    asks="a word, at half the usual temperature",
    run=run,
    needs=("answers",),
    remedies=(Remedy({"sampling": []}, "sampling settings are dropped, and told as losses", settles=True),),
)
