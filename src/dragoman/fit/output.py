"""The form of the answer: native where the target has it, an instruction where it has not."""

from dragoman.fit.editing import is_foreign, replace
from dragoman.fit.system import INSTRUCTING
from dragoman.hub.content import Text
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import OutputFormat, Request, Turn
from dragoman.providers.profile import Target
from dragoman.schema import close_schema
from dragoman.wire.fields import encode

JSON_OBJECT = "Answer with one JSON object and nothing else: no other words, no code fence."
JSON_SCHEMA = (
    "Answer with one JSON value and nothing else: no other words, no code fence. "
    "It must match this JSON schema:\n"
)

#: Some vendors insist on a name for the schema.
NAME = "answer"


def output(request: Request, target: Target, losses: Losses) -> Request:
    wanted = request.output
    if wanted is None:
        return request
    if wanted.kind not in target.outputs:
        return _instructed(request, wanted, losses)
    if not is_foreign(request, target) or wanted.kind != "json_schema":
        return request
    if target.closed_output and wanted.schema is not None:
        closed = close_schema(wanted.schema)
        if closed is None:
            return _instructed(request, wanted, losses)
        if closed.has_notes:
            losses.add(request.path_of("output"), "limits of the schema are told in words, not enforced")
        if closed.schema != wanted.schema:
            wanted = replace(wanted, schema=closed.schema)
    if not wanted.name:
        wanted = replace(wanted, name=NAME)
    return request if wanted is request.output else replace(request, output=wanted)


def _instructed(request: Request, wanted: OutputFormat, losses: Losses) -> Request:
    request = replace(request, output=None)
    if wanted.kind == "text":
        return request
    losses.add(request.path_of("output"), "the target cannot be held to JSON and was asked for it instead")
    words = JSON_OBJECT
    if wanted.kind == "json_schema" and wanted.schema is not None:
        words = JSON_SCHEMA + encode(wanted.schema, blame=ClientProtocolError).decode()
    front = next(
        (at for at, turn in enumerate(request.turns) if turn.role not in INSTRUCTING), len(request.turns)
    )
    asked = Turn(role="system", blocks=(Text(text=words),))
    return replace(request, turns=(*request.turns[:front], asked, *request.turns[front:]))
