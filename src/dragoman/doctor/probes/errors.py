"""Does it say what is wrong, when something is?"""

from dragoman.doctor.probe import Outcome, Probe, quoted, works, wrong
from dragoman.doctor.talk import Talk, user

NOBODY = "dragoman-doctor-no-such-model"
#: What a client's own mistake may be called.
BLAMES_THE_CLIENT = ("invalid_request", "not_found", "permission")


async def run(talk: Talk) -> Outcome:
    heard = await talk.ask(user('Please say "pong".'), model=NOBODY, room=64)
    failure = heard.failure
    if failure is None:
        return works(heard, "any model name is taken")
    if failure.kind in BLAMES_THE_CLIENT:
        return works(heard, f"status {failure.http_status}")
    return wrong(
        f"a wrong model name is answered with status {failure.http_status}: {quoted(failure.message)}",
        advice="mistakes look like outages here: retries and other targets are tried in vain",
    )


PROBE = Probe(name="errors", asks="a model that does not exist", run=run, needs=("answers",))
