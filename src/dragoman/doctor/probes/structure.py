"""Can the answer be held to a schema?"""

import msgspec

from dragoman.doctor.probe import Outcome, Probe, Remedy, quoted, refused, works, wrong
from dragoman.doctor.talk import Talk, user

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}


async def run(talk: Talk) -> Outcome:
    wanted = {"format": {"type": "json_schema", "schema": SCHEMA}}
    heard = await talk.ask(user("A capital and its country, as JSON."), output_config=wanted)
    if failed := refused(heard):
        return failed
    if not _fits(heard.text):
        return wrong(f"the answer is not what the schema says: {quoted(heard.text)}")
    return works(heard)


def _fits(text: str) -> bool:
    try:
        found = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return False
    return set(found) == {"city", "country"}


PROBE = Probe(
    name="structured output",
    asks="a small object by its schema",
    run=run,
    needs=("answers",),
    remedies=(
        Remedy({"outputs": ["text", "json_object"]}, "the schema is told in words, JSON is demanded"),
        Remedy({"outputs": ["text"]}, "the schema is told in words"),
        Remedy({"outputs": ["text"]}, "the schema is told in words, without success", settles=True),
    ),
)
