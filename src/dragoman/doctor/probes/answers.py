"""Does it answer at all?"""

from dragoman.doctor.probe import Outcome, Probe, Remedy, refused, works, wrong
from dragoman.doctor.talk import Talk, user


async def run(talk: Talk) -> Outcome:
    heard = await talk.ask(user('Please say "pong".'))
    if failed := refused(heard):
        return failed
    if not heard.text.strip():
        return wrong("the answer is empty", advice="a model that only thinks needs more room: see reasoning")
    return works(heard)


PROBE = Probe(
    name="answers",
    asks="a word, in a stream",
    run=run,
    remedies=(
        Remedy({"stream_usage": False}, "streams are not asked for token counts"),
        Remedy({"max_tokens_field": "max_completion_tokens"}, "the limit is called `max_completion_tokens`"),
        Remedy({"system": "leading", "alternation": True}, "system messages come first, and turns alternate"),
    ),
    advice="does the provider know the model by this name? Try `dragoman doctor` without a model first",
)
