"""Do long arguments with awkward characters arrive as they are?"""

import msgspec

from dragoman.doctor.probe import Outcome, Probe, quoted, refused, works, wrong
from dragoman.doctor.probes.tools import NOTE, call_of
from dragoman.doctor.talk import Talk, user

ROOM = 2_048
#: Quotes, backslashes, tabs, tags and letters beyond ASCII: what source code is made of.
LINES = tuple(f"{number}:\tif path == \"C:\\new\\{number}\": say('é ß <b>')" for number in range(1, 25))
TEXT = "\n".join(LINES)


async def run(talk: Talk) -> Outcome:
    question = f"Please {call_of('save_note', text=TEXT)}"
    heard = await talk.ask(user(question), room=ROOM, tools=[NOTE])
    if failed := refused(heard):
        return failed
    if not heard.calls:
        return wrong(f"no call was made; it said {quoted(heard.text)}")
    broken = not _is_json(heard.raw_arguments()[:1])
    arrived = str(heard.calls[0].input.get("text", ""))
    if arrived == TEXT:
        return works(heard, "", *(("the arguments came broken and were mended",) if broken else ()))
    if broken:
        return wrong("the arguments are not JSON", advice='tools = "hold" below [governance] mends them')
    same = sum(ours == theirs for ours, theirs in zip(LINES, arrived.split("\n"), strict=False))
    return wrong(f"{same} of {len(LINES)} lines arrived unchanged", advice="let it write in smaller steps")


def _is_json(written: list[str]) -> bool:
    try:
        return all(isinstance(msgspec.json.decode(text or "{}"), dict) for text in written)
    except (msgspec.DecodeError, RecursionError):
        return False


PROBE = Probe(name="long arguments", asks="a call with 24 lines of source code", run=run, needs=("tools",))
