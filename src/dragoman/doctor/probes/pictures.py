"""Does it see pictures?"""

from dragoman.doctor.probe import Outcome, Probe, Remedy, quoted, refused, works, wrong
from dragoman.doctor.talk import Message, Talk, user

#: 64 by 64 points of pure red.
RED = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BA"
    "QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC"
)


async def run(talk: Talk) -> Outcome:
    picture: Message = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": RED}}
    words: Message = {"type": "text", "text": "Which colour is this picture? Answer with one word."}
    heard = await talk.ask(user([picture, words]))
    if failed := refused(heard):
        return failed
    if "red" not in heard.text.lower():
        return wrong(
            f"it took a red picture and said {quoted(heard.text)}",
            advice="if it cannot see, state images = false, and agents are told so",
        )
    return works(heard)


PROBE = Probe(
    name="pictures",
    asks="the colour of a red square",
    run=run,
    needs=("answers",),
    remedies=(
        Remedy({"images": False}, "pictures are replaced by a remark, and told as losses", settles=True),
    ),
)
