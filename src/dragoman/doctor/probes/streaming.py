"""Does the answer come in pieces?"""

from dragoman.doctor.probe import Outcome, Probe, refused, works, wrong
from dragoman.doctor.talk import Talk, user

WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"


async def run(talk: Talk) -> Outcome:
    heard = await talk.ask(user(f'Please say "{WORDS}".'))
    if failed := refused(heard):
        return failed
    if heard.is_whole:
        return works(heard, "the server ignores the wish for a stream", "its whole answers become streams")
    pieces = heard.pieces()
    if pieces == 0:
        return wrong("the stream ends without a word")
    return works(heard, "in one piece" if pieces == 1 else f"in {pieces} pieces")


PROBE = Probe(name="streaming", asks="a sentence, and counts its pieces", run=run, needs=("answers",))
