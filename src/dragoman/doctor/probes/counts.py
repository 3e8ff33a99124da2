"""Does it tell how many tokens were used?"""

from dragoman.doctor.probe import Outcome, Probe, absent, refused, works
from dragoman.doctor.talk import Talk, user


async def run(talk: Talk) -> Outcome:
    heard = (
        talk.last if talk.last and talk.last.failure is None else await talk.ask(user('Please say "pong".'))
    )
    if failed := refused(heard):
        return failed
    usage = heard.usage
    if not usage.input or not usage.output:
        return absent(
            "it does not tell, so that dragoman can only guess", advice="budgets go by guesses here"
        )
    return works(heard)


PROBE = Probe(name="token counts", asks="nothing: looks at the answer before", run=run, needs=("answers",))
