"""Does it stop where it is told to?"""

from dragoman.doctor.probe import Outcome, Probe, Remedy, quoted, refused, works, wrong
from dragoman.doctor.talk import Talk, user


async def run(talk: Talk) -> Outcome:
    heard = await talk.ask(user('Please say "alpha HALT omega".'), stop_sequences=["HALT"])
    if failed := refused(heard):
        return failed
    if "omega" in heard.text or "HALT" in heard.text:
        return wrong(f"it went on: {quoted(heard.text)}")
    return works(heard)


PROBE = Probe(
    name="stop sequences",
    asks="a sentence with a stop sequence in it",
    run=run,
    needs=("answers",),
    remedies=(Remedy({"stop_limit": 0}, "dragoman watches for them itself"),),
)
