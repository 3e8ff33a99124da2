"""Reads a request: contents as turns, tools as one list, `generationConfig` as the request's own fields.

The model and whether to stream are in the URL; a body that names the model too is heard if the URL is silent.
"""

from msgspec.structs import replace

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.forms import RequestForm, write_form
from dragoman.dialects.gemini.generation import CONFIG, PATHS, below, read_generation
from dragoman.dialects.gemini.history_reader import HistoryReader
from dragoman.dialects.gemini.signature import ISSUER
from dragoman.dialects.gemini.spelling import Spelling
from dragoman.dialects.gemini.tools import read_choice, read_tools
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.wire.fields import Fields

MODELS = "models/"


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    """The request that a body makes; takes the body apart."""
    spelling, form = Spelling(), RequestForm()
    fields = spelling.canonical(Fields(body))
    named = fields.maybe_text("model")
    if named is not None:
        form.model_prefix = MODELS if named.startswith(MODELS) else ""
    history = HistoryReader(spelling, losses)
    system = history.system(fields)
    turns = _read_contents(fields, history, form)
    tools = read_tools(fields, spelling, form)
    choice = read_choice(fields, spelling)
    known, left = read_generation(fields, spelling, form)
    tier = fields.text_or("serviceTier", "")
    store = fields.maybe_flag("store")
    extras = fields.rest() | below(CONFIG, left)
    form.renamed = spelling.renamed
    request = Request(
        dialect=ISSUER,
        model=(model or named or "").removeprefix(MODELS),
        turns=(*([system] if system else []), *turns),
        tools=tools,
        tool_choice=choice,
        stream=stream,
        service_tier=tier,
        store=store,
        paths=PATHS,
        form="" if form == RequestForm() else write_form(form),
        extras=extras,
    )
    return replace(request, **known)


def _read_contents(fields: Fields, history: HistoryReader, form: RequestForm) -> list[Turn]:
    contents = fields.rest().get("contents")
    if isinstance(contents, str | dict):
        form.contents = "text" if isinstance(contents, str) else "object"
        return [history.turn(fields, fields.raw("contents"), -1)]
    return [history.turn(fields, item, index) for index, item in enumerate(fields.items("contents"))]
