"""What the pretended model does, turn by turn, whichever protocol it is asked in.

A script is a list of steps. Each request that offers tools takes the next step; when the steps are used up
the last one is repeated, so that a client which asks once more still gets an answer.
"""

import base64

import msgspec


class Call(msgspec.Struct, frozen=True):
    """A tool call. `kind` is how the tool was declared: a function, or custom (free text in `input`)."""

    name: str
    arguments: dict[str, object] = {}
    kind: str = "function"
    input: str = ""
    namespace: str = ""


class Step(msgspec.Struct, frozen=True):
    """One reply of the model: reasoning, text and calls, in this order; each may be missing."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    input_tokens: int = 100


def seal(label: str) -> str:
    """An opaque value as vendors sign reasoning with: base64, and plainly made up."""
    return base64.b64encode(f"recording only: {label}".encode()).decode()


def loop(read: str, run: str, path: str, command: str, directory: str) -> tuple[Step, ...]:
    """The loop that every agent is taken through, in the names of its own tools and parameters.

    It reads a file, fails to read another, makes two calls at once (one of them for an image), and ends.
    """
    return (
        Step(
            text="I will read the notes.",
            reasoning="The notes come first.",
            calls=(Call(read, {path: f"{directory}/notes.txt"}),),
        ),
        Step(calls=(Call(read, {path: f"{directory}/missing.txt"}),)),
        Step(
            text="One file is missing. Two more things at once.",
            reasoning="These two do not depend on each other.",
            calls=(Call(run, {command: "echo hi"}), Call(read, {path: f"{directory}/pixel.png"})),
        ),
        Step(text="All done: the notes say hello.", reasoning="Nothing is left to do."),
        Step(text="You are welcome.", reasoning="A short answer will do."),
    )
