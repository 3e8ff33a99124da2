"""The whole line of a reply, bytes to bytes, with governance off and on, for a model that behaves.

Governance is there for models that do not behave; those that do should hardly notice it.
"""

from collections.abc import Callable

from bench.measure import compare
from bench.payloads import agent_request, chat_stream
from dragoman.dialects.interfaces import ClientContext, UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.fit import ClientTraits, build_reply_stages, build_restoration
from dragoman.governance.settings import Governance, read_governance
from dragoman.governance.stages import build_stages
from dragoman.governance.tool_names import find_declared_tools
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.pipeline.reply import TranslatedReply
from dragoman.providers.profile import Profile, build_target_facts
from dragoman.wire.fields import decode
from dragoman.wire.sse import encode_sse

#: What governance may add to the cost of an event that comes alone, as most do.
GOAL = 0.15
JUDGED_READ = "one event a read"

#: What the documentation proposes for a model that needs looking after.
JUDGED = 'tools = "hold", harvest = "auto", rename, dedupe'
WISHES: dict[str, dict[str, object]] = {
    "off": {},
    'tools = "hold"': {"tools": "hold"},
    'tools = "auto"': {"tools": "auto"},
    'harvest = "auto"': {"harvest": "auto"},
    "rename": {"rename": True},
    "dedupe": {"dedupe": True},
    "validate": {"validate": True},
    JUDGED: {"tools": "hold", "harvest": "auto", "rename": True, "dedupe": True},
    'tools = "auto", harvest = "auto", rename': {"tools": "auto", "harvest": "auto", "rename": True},
    "the same with dedupe": {"tools": "auto", "harvest": "auto", "rename": True, "dedupe": True},
}


def governed_report() -> list[str]:
    chunks = chat_stream()
    reads = {JUDGED_READ: chunks, "in one read": [b"".join(chunks)]}
    return [line for name, pieces in reads.items() for line in _table(name, pieces, len(chunks) - 1)]


def _table(name: str, pieces: list[bytes], events: int) -> list[str]:
    request = _request()
    wished = {setting: read_governance(wish) for setting, wish in WISHES.items()}
    jobs = {setting: _job(governance, request, pieces) for setting, governance in wished.items()}
    off = jobs.pop("off")
    results = compare(off, jobs, units=events)
    lines = [f"Governed Chat stream to Anthropic, {name}, per event"]
    for setting, result in results.items():
        added = f"{result.ratio - 1:+7.1%}" if setting else ""
        if setting == JUDGED and name == JUDGED_READ:
            added += f"   goal {GOAL:+.0%}: {'met' if result.ratio <= 1 + GOAL else 'MISSED'}"
        lines.append(f"  {setting or 'off':<52} {result.micros:9.2f} µs  {added}")
    return lines


def _request() -> Request:
    body = decode(agent_request(60_000))
    assert isinstance(body, dict)
    return dialect_named("anthropic").read_request(body, Losses())


def _job(governance: Governance, request: Request, pieces: list[bytes]) -> Callable[[], object]:
    tools = find_declared_tools(request)
    client = dialect_named("anthropic")
    facts = build_target_facts(Profile(dialect="openai_chat"), "anthropic")
    traits = ClientTraits(seals_on_calls=client.seals_on_calls, object_arguments=client.object_arguments)

    def run() -> bytes:
        losses, ids = Losses(), IdSource("bench")
        stages = build_stages(governance, tools, ids=ids, report=_unheard)
        reply = TranslatedReply(
            dialect_named("openai_chat").stream_reader(
                UpstreamContext(issuer="openai_chat", ids=ids, losses=losses)
            ),
            [*stages, *build_reply_stages(build_restoration(request, facts), client=traits, losses=losses)],
            client.stream_writer(ClientContext(upstream="openai_chat", ids=ids, losses=losses)),
        )
        return b"".join([*(encode_sse(reply.feed(piece)) for piece in pieces), encode_sse(reply.close())])

    return run


def _unheard(intervention: object) -> None:
    """Who keeps records pays for them elsewhere."""
