"""Does it tell what it read from its prompt cache?"""

from dragoman.doctor.probe import Outcome, Probe, absent, refused
from dragoman.doctor.talk import SYSTEM, Message, Talk, user

#: Long enough for the vendors that cache prompts from a thousand tokens on.
LONG = (
    SYSTEM
    + "\n"
    + "\n".join(f"Rule {number}: keep to the rules before this one." for number in range(1, 140))
)


async def run(talk: Talk) -> Outcome:
    system: Message = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}
    for _ in range(2):
        heard = await talk.ask(user('Please say "pong".'), system=[system], room=256)
        if failed := refused(heard):
            return failed
    usage = heard.usage
    if usage.cache_read:
        # Marks for the cache are lost on servers that need none: no reason to speak of help.
        detail = f"{usage.cache_read} of {usage.input or usage.cache_read} tokens were read from it"
        return Outcome(did="works", detail=detail)
    if usage.cache_read is None and usage.cache_write is None:
        return absent("it does not tell")
    return absent("it read nothing from it", advice="short prompts are often not cached, nor are first ones")


PROBE = Probe(name="cache counters", asks="the same long prompt twice", run=run, needs=("answers",))
