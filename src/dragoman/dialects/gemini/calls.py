"""Collects a function call of a stream: one part, or several if the client asked for partial arguments."""

from collections.abc import Iterator

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.part_reader import find_extra_data
from dragoman.dialects.gemini.partial_arguments import PartialArguments
from dragoman.hub.content import Extras, ToolCall
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.wire.fields import encode

#: Notes in a block's `form`: the fields that the part did not have.
NO_ID = "no-id"
NO_ARGUMENTS = "no-args"

_KNOWN_IN_CALL = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
_KNOWN_IN_PART = frozenset({"functionCall", "thought", "thoughtSignature"})


def collect_call_extras(part: Json, call: Json) -> Extras:
    """The fields of a call's part that the hub does not know; those of `functionCall` stay inside it."""
    stray = find_extra_data(part, "functionCall")
    extras = {key: value for key, value in part.items() if key not in _KNOWN_IN_PART and key not in stray}
    inside = {key: value for key, value in call.items() if key not in _KNOWN_IN_CALL}
    if inside:
        extras["functionCall"] = inside
    return extras


class PendingCall:
    """One call of a reply until its last part. `index` is the number of its block, once it is open."""

    __slots__ = ("_partial", "_text", "block", "index")

    def __init__(self, call: Json, part: Json, call_id: str) -> None:
        form = [] if call.get("id") == call_id else [NO_ID]
        if "args" not in call and "partialArgs" not in call and call.get("willContinue") is not True:
            form.append(NO_ARGUMENTS)
        self.index = -1
        self.block = ToolCall(
            id=call_id, name=str(call["name"]), form=" ".join(form), extras=collect_call_extras(part, call)
        )
        self._text = ""
        self._partial: PartialArguments | None = None

    def add(self, call: Json) -> Iterator[str]:
        """Add one part. Yields a message for each value that could not be used."""
        arguments, pieces = call.get("args"), call.get("partialArgs")
        if isinstance(arguments, str):
            # Some servers send arguments as text: it may be JSON, and if not, it can be repaired later.
            self._text = arguments
        elif arguments is not None:
            self._text = encode(arguments, blame=UpstreamProtocolError).decode()
        if call.get("willContinue") is True or isinstance(pieces, list):
            if self._partial is None:
                self._partial = PartialArguments(arguments)
            for piece in pieces if isinstance(pieces, list) else []:
                if not self._partial.add(piece):
                    yield "a piece of arguments without a legal place was skipped"

    def arguments(self, *, whole: bool) -> str:
        """The arguments as JSON text. Without the last part the text is left incomplete on purpose."""
        if self._partial is not None:
            text = encode(self._partial.value(), blame=UpstreamProtocolError).decode()
            return text if whole else text[:-1]
        return self._text or "{}"
