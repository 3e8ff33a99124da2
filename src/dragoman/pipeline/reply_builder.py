"""Builds the readers and translated replies that the library and the gateway share."""

from collections.abc import Mapping

from dragoman.dialects.interfaces import ClientContext, Json, StreamReader, UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.fit import ClientTraits, build_reply_stages, build_restoration
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.pipeline.governance import GovernedRequest
from dragoman.pipeline.reply import ReplyRounds, TranslatedReply
from dragoman.providers.profile import TargetFacts


def build_reader(
    upstream: str, asked: Request | None, facts: TargetFacts, *, ids: IdSource, losses: Losses
) -> StreamReader:
    """Build the reader of one reply. `asked` is the request that the upstream answers, if it is known."""
    model = facts.model or (asked.model if asked else "")
    source = UpstreamContext(issuer=facts.issuer, model=model, ids=ids, losses=losses, request=asked)
    return dialect_named(upstream).stream_reader(source)


def build_translated_reply(
    client_dialect: str,
    request: Request | None,
    body: Json,
    facts: TargetFacts,
    *,
    ids: IdSource,
    created: int,
    input_estimate: int,
    losses: Losses,
    governed: GovernedRequest | None = None,
    rounds: ReplyRounds | None = None,
    reply_members: Mapping[str, bytes] = {},
) -> TranslatedReply:
    """Build the pipeline for one reply to `request`, which the client sent as `body`."""
    client = dialect_named(client_dialect)
    asked = governed.asked if governed else request
    traits = ClientTraits(seals_on_calls=client.seals_on_calls, object_arguments=client.object_arguments)
    restored = build_restoration(asked or Request(dialect=client_dialect, model=""), facts)
    writer = client.stream_writer(
        ClientContext(
            upstream=facts.dialect,
            request=request,
            body=body,
            model=request.model if request else "",
            ids=ids.branch("client"),
            created=created,
            input_estimate=input_estimate,
            losses=losses,
            reply_members=reply_members,
        )
    )
    return TranslatedReply(
        build_reader(facts.dialect, asked, facts, ids=ids.branch("upstream"), losses=losses),
        build_reply_stages(restored, client=traits, losses=losses),
        writer,
        rounds=rounds,
        call_order="whole" if facts.whole_calls else client.call_order,
    )
