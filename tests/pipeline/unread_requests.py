"""Requests for servers of their own dialect: built without their conversation, and as a whole."""

import random
from collections import Counter
from functools import cache
from typing import Any
from unittest.mock import patch

import msgspec

from dragoman.config.model_facts import build_layers
from dragoman.config.provider import Provider
from dragoman.dialects.registry import dialect_named
from dragoman.fit import build_restoration
from dragoman.governance.interventions import Intervention
from dragoman.governance.settings import Governance
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Losses
from dragoman.pipeline import unread
from dragoman.pipeline.governance import GovernedRequest
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.target_request import TargetRequest
from dragoman.providers.presets import load_catalogue, load_presets
from dragoman.providers.profile import Profile, build_target_facts
from dragoman.wire.sse import encode_sse
from tests.exchange.governing import events_of, write_stream

Json = dict[str, Any]
MODEL = "model-1"

#: Facts about settings, and facts about blocks that conversations may lack.
FACTS: tuple[Json, ...] = (
    {"max_output_tokens": 100},
    {"max_output_tokens": 4000, "default_max_tokens": 500, "min_output_tokens": 16},
    {"limits_output": False},
    {"max_tokens_field": "max_tokens"},
    {"max_tokens_field": "max_completion_tokens"},
    {"sampling": []},
    {"sampling": ["temperature"], "temperature_limit": 0.2},
    {"temperature_with_top_p": False, "sampling_with_reasoning": False},
    {"reasoning": "none"},
    {"reasoning": "effort", "efforts": ["low", "high"]},
    {"reasoning": "adaptive", "efforts": ["low"], "always_reasons": True},
    {"reasoning": "budget", "budget_range": [1024, 4096]},
    {"whole_reasoning": False},
    {"service_tiers": ["auto"], "candidates": False},
    {"stop_limit": 1},
    {"choices": ["auto"], "parallel_control": False},
    {"outputs": ["text"]},
    {"stream_usage": False},
    {"documents": False, "audio": False},
    {"images": False, "documents": False},
    {"context_tokens": 1000, "price_input": 1.0},
    {"refused_fields": ["temperature", "metadata"]},
    {"refused_fields": ["messages.*.name"]},
    {"issuer": "other"},
    {"instructions": "Be brief."},
)

#: Settings that generated sessions do not have.
SETTINGS: dict[str, tuple[Json, ...]] = {
    "anthropic": (
        {"stop_sequences": ["a", "b"]},
        {"temperature": 0.9, "top_p": 0.5, "service_tier": "standard_only"},
        {"thinking": {"type": "enabled", "budget_tokens": 9000}, "max_tokens": 9001},
    ),
    "openai_chat": (
        {"stop": ["a", "b"], "n": 2},
        {"parallel_tool_calls": False, "tool_choice": "required"},
        {"response_format": {"type": "json_object"}, "service_tier": "flex"},
        {"max_completion_tokens": 50, "temperature": 1.5, "top_p": 0.2, "reasoning_effort": "medium"},
    ),
    "openai_responses": (
        {"service_tier": "flex", "text": {"verbosity": "low"}, "temperature": 0.5},
        {"parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"}},
    ),
    "gemini": (
        {"generationConfig": {"stopSequences": ["a", "b"], "maxOutputTokens": 9000, "candidateCount": 2}},
        {"generation_config": {"max_output_tokens": 5000, "temperature": 0.4}, "serviceTier": "flex"},
    ),
}


def vary_settings(body: bytes, dialect: str, chooser: random.Random) -> bytes:
    """The body, often with further settings."""
    if chooser.random() < 0.5:
        return body
    return msgspec.json.encode({**msgspec.json.decode(body), **chooser.choice(SETTINGS[dialect])})


@cache
def list_known(dialect: str) -> tuple[Provider, ...]:
    """The providers of a dialect that the gateway knows, with all their facts."""
    return tuple(
        Provider(
            name=name, dialect=dialect, base_url="http://127.0.0.1:9", layers=build_layers(name, preset, {})
        )
        for name, preset in load_presets().items()
        if preset.dialect == dialect
    )


def choose_target(dialect: str, chooser: random.Random) -> tuple[Provider, str]:
    """A provider of the dialect, and one of its models: of the catalogue, or with any facts."""
    if chooser.random() < 0.5:
        provider = chooser.choice(list_known(dialect))
        catalogue = load_catalogue(load_presets()[provider.name].catalogue or provider.name)
        patterns = sorted(catalogue.models) if catalogue else ["any"]
        return provider, chooser.choice(patterns).replace("*", "")
    chosen = chooser.sample(FACTS, chooser.choice((0, 1, 1, 2)))
    models = {"*": {name: value for facts in chosen for name, value in facts.items()}}
    provider = Provider(name="server", dialect=dialect, base_url="http://127.0.0.1:9", models=models)
    return provider, chooser.choice((MODEL, "model-2"))


class Built(msgspec.Struct):
    """A request for a target, or the error with which it was refused."""

    request: TargetRequest | None
    error: str
    reports: list[Intervention]
    #: Whether the whole request was read.
    is_read: bool


def build(
    body: bytes, dialect: str, provider: Provider, model: str, governance: Governance, *, strict: bool = False
) -> Built:
    plan = RequestPlan(RequestMetadata(dialect=dialect, model=MODEL if dialect == "gemini" else ""), body)
    reports: list[Intervention] = []
    try:
        plan.peek()
        request = plan.build_target_request(
            provider, model, governance=governance, report=reports.append, strict=strict
        )
    except DragomanError as error:
        return Built(None, str(error), reports, plan._request is not None)
    return Built(request, "", reports, plan._request is not None)


def build_whole(*arguments: Any, **options: Any) -> Built:
    """The same, but the whole request is read unless nothing is known of the model."""
    with patch.object(unread, "_open_body", return_value=None):
        return build(*arguments, **options)


def is_written_as_sent(body: bytes, dialect: str) -> bool:
    """Whether the dialect's writer gives the same JSON as the body: then only the fit changes a request."""
    language = dialect_named(dialect)
    value = msgspec.json.decode(body)
    model = MODEL if dialect == "gemini" else ""
    request = language.read_request(msgspec.json.decode(body), Losses(), model=model)
    written = language.write_request(request, build_target_facts(Profile(dialect=dialect), dialect), Losses())
    return bool(msgspec.json.decode(msgspec.json.encode(written)) == value)


def compare_both_ways(
    body: bytes,
    dialect: str,
    provider: Provider,
    model: str,
    governance: Governance,
    counts: Counter[str],
    *,
    strict: bool = False,
) -> str:
    """Name what differs between a request and the one whose conversation was read; empty if nothing does."""
    arguments = (body, dialect, provider, model, governance)
    one, whole = build(*arguments, strict=strict), build_whole(*arguments, strict=strict)
    counts["requests"] += 1
    if one.request is None or whole.request is None:
        return "" if one.error == whole.error else f"errors: {one.error!r} or {whole.error!r}"
    is_unread = not one.is_read
    counts["unread"] += is_unread
    is_edited = is_unread and one.request.lane != whole.request.lane
    counts["edited"] += is_edited
    is_same = one.request.body == whole.request.body
    if not is_same and is_unread and is_written_as_sent(body, dialect):
        is_same = msgspec.json.decode(one.request.body) == msgspec.json.decode(whole.request.body)
    elif not is_same and is_unread:
        is_same = is_edited or one.request._governed is not None
    parts = {
        "body": is_same,
        "lane": one.request.lane == ("patch" if is_edited else whole.request.lane),
        "losses": one.request.losses == whole.request.losses,
        "reports": one.reports == whole.reports,
        "restoration": restore(one.request) == restore(whole.request),
        "governance": compare_governance(one.request, whole.request),
        "reply": is_edited or feed(one.request, dialect) == feed(whole.request, dialect),
    }
    return ", ".join(name for name, is_equal in parts.items() if not is_equal)


def restore(request: TargetRequest) -> object:
    """What the stages of the reply undo. The ids of calls matter only to clients of another dialect."""
    if request._facts is None:
        return None
    return msgspec.structs.replace(build_restoration(request.outline_request(), request._facts), taken_ids=())


def compare_governance(one: TargetRequest, whole: TargetRequest) -> bool:
    """Whether both replies are governed alike: outlines without the conversation, texts, next requests."""
    if one._governed is None or whole._governed is None:
        return one._governed is whole._governed and one.outline_request() == whole.outline_request()
    is_same_next = one._governed.find_fitted() == whole._governed.find_fitted()
    return remove_messages(one._governed).compare(remove_messages(whole._governed)) and is_same_next


def remove_messages(governed: GovernedRequest) -> GovernedRequest:
    return msgspec.structs.replace(governed, asked=msgspec.structs.replace(governed.asked, messages=()))


def feed(request: TargetRequest, dialect: str) -> bytes:
    """What the client gets of a reply with text, a call as text, and calls."""
    reply = request.start_reply("text/event-stream")
    request.release()
    text = '<tool_call>\n{"name": "Read", "arguments": {"path": "x"}}\n</tool_call>'
    blocks = (
        "A text.",
        text,
        ("read", "{'path': 'x'}"),
        ("Read", '{"path": "y"}'),
        ("Read", '{"path": "y"}'),
    )
    pieces = write_stream(dialect, events_of(*blocks, cause="tool_calls"))
    return b"".join(encode_sse(reply.feed(piece)) for piece in pieces) + encode_sse(reply.close())
