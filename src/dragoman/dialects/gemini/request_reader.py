"""Reads a request: contents as messages, tools as one list, `generationConfig` as fields of the request.

The URL holds the model and whether to stream. The model in the body counts only if the URL has none.
"""

from msgspec.structs import replace

from dragoman.dialects.gemini.content_reader import HistoryReader
from dragoman.dialects.gemini.generation import CONFIG, PATHS, read_generation
from dragoman.dialects.gemini.names import NAME, NameConverter, RequestForm, prefix_names, write_form
from dragoman.dialects.gemini.tools import read_choice, read_tools
from dragoman.dialects.interfaces import Json
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.wire.fields import Fields, find_first_index

MODELS = "models/"


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    """Read a client's body and empty it."""
    converter, form = NameConverter(), RequestForm()
    fields = converter.convert(Fields(body))
    named = fields.maybe_text("model")
    if named is not None:
        form.model_prefix = MODELS if named.startswith(MODELS) else ""
    history = HistoryReader(converter, losses)
    system = history.read_system(fields)
    messages = _read_contents(fields, history, form)
    tools = read_tools(fields, converter, form)
    choice = read_choice(fields, converter)
    known, rest = read_generation(fields, converter, form)
    tier = fields.text_or("serviceTier", "")
    store = fields.maybe_flag("store")
    extras = fields.rest() | prefix_names(CONFIG, rest)
    form.renamed = converter.renamed
    request = Request(
        dialect=NAME,
        model=(model or named or "").removeprefix(MODELS),
        messages=(*([system] if system else []), *messages),
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


def _read_contents(fields: Fields, history: HistoryReader, form: RequestForm) -> list[Message]:
    contents = fields.rest().get("contents")
    if isinstance(contents, str | dict):
        form.contents = "text" if isinstance(contents, str) else "object"
        return [history.read_message(fields, fields.raw("contents"), -1)]
    items = fields.items("contents")
    first = find_first_index(items)
    return [history.read_message(fields, item, index) for index, item in enumerate(items, first)]
