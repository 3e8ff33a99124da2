"""Can a call be forced?"""

from dragoman.doctor.probe import Outcome, Probe, Remedy, refused, works, wrong
from dragoman.doctor.probes.tools import NOTE, WEATHER
from dragoman.doctor.talk import Talk, user

GREETING = "Hello, how are you today?"


async def any_tool(talk: Talk) -> Outcome:
    heard = await talk.ask(user(GREETING), tools=[WEATHER], tool_choice={"type": "any"})
    if failed := refused(heard):
        return failed
    if not heard.calls:
        return wrong("it answered without a call", advice="the wish is ignored; agents must ask in words")
    return works(heard)


async def named_tool(talk: Talk) -> Outcome:
    choice = {"type": "tool", "name": "save_note"}
    heard = await talk.ask(user(GREETING), tools=[WEATHER, NOTE], tool_choice=choice)
    if failed := refused(heard):
        return failed
    if [call.name for call in heard.calls][:1] != ["save_note"]:
        return wrong("it did not call the tool that was named", advice="agents must ask for it in words")
    return works(heard)


FORCED = Probe(
    name="forced call",
    asks="small talk, with a call demanded",
    run=any_tool,
    needs=("tools",),
    remedies=(
        Remedy({"choices": ["auto", "none"]}, "the demand is dropped, and told as a loss", settles=True),
    ),
)
NAMED = Probe(
    name="named call",
    asks="small talk, with a call of one tool demanded",
    run=named_tool,
    needs=("tools",),
    remedies=(
        Remedy(
            {"choices": ["auto", "none", "required"]},
            "the demand is widened, and told as a loss",
            settles=True,
        ),
        Remedy({"choices": ["auto", "none"]}, "the demand is dropped, and told as a loss", settles=True),
    ),
)
