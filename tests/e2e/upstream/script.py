"""What the pretended model does, turn by turn, whichever vendor's protocol it is asked in.

A script is a list of steps. Each request that offers tools takes the next step; when the steps are used up
the last one is repeated, so that a client which asks once more still gets an answer.
"""

from typing import Literal

import msgspec


class Use(msgspec.Struct, frozen=True):
    """Something the model wants done: an intent such as `read`, and what it is about."""

    intent: str
    value: str


class Turn(msgspec.Struct, frozen=True):
    """One whole reply of the model: reasoning, text and calls, in this order; each may be missing."""

    text: str = ""
    reasoning: str = ""
    uses: tuple[Use, ...] = ()
    #: Why the model stopped: by itself, or at the cap on tokens.
    stop: Literal["end", "length"] = "end"


FaultKind = Literal[
    "status",  # an error instead of a reply
    "html",  # a proxy's page, with status 200
    "json",  # a whole reply where a stream was asked for
    "empty",  # status 200 and nothing
    "error",  # the vendor's error inside the stream
    "reset",  # the connection breaks
    "end",  # the stream ends cleanly, without its closing events
    "silence",  # nothing for some seconds, then the rest
    "refused",  # the connection breaks before any answer
]


#: How far a stream gets before something goes wrong: nothing sent, only opened, the reasoning complete, in
#: the middle of the text, in the middle of a call, or all but the closing events.
Place = Literal["start", "opened", "reasoning", "text", "call", "end"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that goes wrong; `turn` is played as far as `place`, where the fault is in the stream."""

    kind: FaultKind
    turn: Turn = Turn(text="This is cut off.")
    place: Place = "text"
    status: int = 500
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    message: str = "the scripted upstream fails here"


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How the bytes of a healthy reply are sent."""

    #: Bytes to a write; 0 sends frame by frame.
    drip: int = 0
    crlf: bool = False
    comments: bool = False
    #: Whether pieces of parallel calls come in turns, where the dialect can do that (Chat).
    interleaved: bool = False


Step = Turn | Fault


class Grip(msgspec.Struct, frozen=True, kw_only=True):
    """How one client's tool fulfils an intent.

    `argument` takes the value; an empty one means that the tool takes free text instead of arguments.
    """

    tool: str
    #: The tool's description, for names that do not arrive as they were.
    about: str = ""
    argument: str = ""
    template: str = "{}"
    more: dict[str, object] = {}
    #: The model calls it by this name although no client declares it.
    is_undeclared: bool = False

    def text(self, value: str) -> str:
        return self.template.replace("{}", value)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A use, put in the words of the tools that the request declares."""

    name: str
    arguments: dict[str, object]
    #: For free-text tools: the text. `arguments` is then empty.
    input: str | None = None
    namespace: str = ""
