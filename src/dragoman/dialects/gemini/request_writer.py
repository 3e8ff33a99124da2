"""Writes the body of a request. The model and whether to stream go into the URL, see `path`."""

from collections.abc import Sequence

import msgspec

from dragoman.dialects.gemini.content_writer import HistoryWriter
from dragoman.dialects.gemini.generation import CONFIG, write_generation
from dragoman.dialects.gemini.names import (
    NAME,
    RequestForm,
    extract_below,
    read_request_form,
    restore_snake_names,
)
from dragoman.dialects.gemini.request_reader import MODELS
from dragoman.dialects.gemini.tools import TOOL_CONFIG, write_config, write_tools
from dragoman.dialects.interfaces import Json
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts


def write_request(request: Request, target: TargetFacts, losses: Losses) -> Json:
    """Build the body for the upstream. A request of this dialect is written exactly as it was received."""
    native = request.dialect == NAME
    form = read_request_form(request.form) if native else RequestForm()
    history = HistoryWriter(request, target, losses)
    body: Json = {"contents": _contents(history.write_contents(), form)}
    system = history.write_system()
    if system is not None:
        body["systemInstruction"] = system
    tools = write_tools(request, target, form, losses)
    if tools:
        body["tools"] = tools
    config = write_config(request, losses, native=native)
    if config:
        body[TOOL_CONFIG] = config
    generation = write_generation(request, target, form, native=native)
    if generation or form.empty_config:
        body[CONFIG] = generation
    if request.service_tier:
        body["serviceTier"] = request.service_tier
    if native:
        _write_own(request, form, body)
    return body


def write_messages(
    request: Request, messages: Sequence[Message], target: TargetFacts, losses: Losses
) -> list[Json]:
    """The contents of these messages of a request of another dialect, which are no system instruction."""
    writer = HistoryWriter(msgspec.structs.replace(request, messages=tuple(messages)), target, losses)
    return [content for content in writer.write_contents() if isinstance(content, dict)]


def _contents(contents: list[object], form: RequestForm) -> object:
    return contents[0] if form.contents and len(contents) == 1 else contents


def _write_own(request: Request, form: RequestForm, body: Json) -> None:
    """Add what only this API understands."""
    if request.store is not None:
        body["store"] = request.store
    if form.model_prefix is not None:
        body["model"] = form.model_prefix + request.model
    beside = extract_below(TOOL_CONFIG, request.extras)
    if beside:
        chosen = body.get(TOOL_CONFIG)
        body[TOOL_CONFIG] = beside | chosen if isinstance(chosen, dict) else beside
    for name, value in request.extras.items():
        if not name.startswith((CONFIG + ".", TOOL_CONFIG + ".")):
            body.setdefault(name, value)
    restore_snake_names(body, form.renamed)


def path(model: str, *, stream: bool) -> str:
    """The URL's end for a request: which model, and whether to stream."""
    name = model if "/" in model else MODELS + model
    return f"{name}:streamGenerateContent?alt=sse" if stream else f"{name}:generateContent"
