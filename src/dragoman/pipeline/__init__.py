"""The translation pipeline: one way to translate, for the library and for the gateway. Nothing here waits.

Theory of operation
-------------------
Three objects carry a request and its reply.

`RequestPlan` (plan) holds one client request. It reads the body at most once, and only if something in it
must be known or changed. `build_target_request` makes the request for one target. There are three lanes:

- `forward`: client and target use the same dialect and nothing changes: the bytes go on unread.
- `patch`: only a few values differ, such as the model's name: they are replaced in the client's bytes.
- `translate`: the request is read into hub values, fitted to the target and written in its dialect.
  A request under governance is in this lane too, even if its bytes go on unchanged: its reply is translated.

Which lane a request within one dialect takes depends on the facts of the model (unread):

- No fact is known that holds for the client, and nothing is governed: `forward` or `patch`.
- The facts are about settings alone, or about content that the conversation does not have (the settings rule,
  `fit.settings`): only the settings are read and fitted, and those that change are edited in the client's
  bytes. Governance reads the tools and the last answer too.
- A fact is about anything else, or the gateway changes the request: the whole request is read and fitted. If
  that changes nothing, the client's bytes are patched all the same.

`TargetRequest` (target_request) holds the bytes for one target and knows how its reply is read.
`start_reply` gives the pipeline of a streamed reply, `start_whole_reply` that of a whole one.
`prepare_reply` builds the former while the request is sent and the upstream works, so that it is ready for
the first piece.

`ReplyPipeline` (reply) takes pieces of the upstream's reply and gives output for the client's transport.
`TranslatedReply` reads, changes and writes; `ForwardedReply` (forwarded) passes the upstream's events on and
reads only what the tally needs. Most deltas are not parsed: an `EventTemplate`, the bytes around the text of
a delta, recognises similar ones. A run of them is read and written as one `DeltaRun` if no stage must see
each of them. A text delta that comes alone and differs from the one before only in its text takes a short way
(express), if its dialects take part.
Output is a sequence of frames, some of them as runs, or the upstream's own events. The connection of the
client (`exchange.client.Client`; over HTTP `server/client.py`) encodes it with its transport (transports):
server-sent events or a JSON array. A whole reply takes the same way: it is exploded into frames and collected
into a body at the end, so streamed and whole replies agree.

Call order: `RequestPlan(metadata, body)`, `peek`, `build_target_request` for each target that is tried,
`start_reply`, then `feed` until `is_round_over` or `close` (the exact order: `ReplyPipeline`). `release`
frees the request when the reply has begun. With governance that retries denied calls, one reply may need
several requests (rounds).

State: a plan belongs to one request, a target request and its pipeline to one call of one target. None of
them is shared between tasks. `RememberedHistories` belongs to the gateway and holds the translated history of
all callers; a plan sees that of its own caller (`plan.histories`).

Modules
-------
- `plan`, `target_request`, `reply`, `forwarded`: the objects above.
- `governance`, `rounds`: the request under governance, and the rounds of a governed reply.
- `reuse`, `remembered`, `continued`, `front`, `history`: translated history of earlier requests.
- `beginning`: the first requests of a conversation, which share the front of another one.
- `split_body`: a body cut without decoding it, and the body that continues a known one. `body_parts` has
  both for one request. `body_search` and `token_bound`: which words, and how many tokens, a body that is not
  read may contain.
- `reading`, `kept_texts`: the new messages of such a request, and what rules need of the others.
- `target_provider`: the interface of a provider. `search`: requests for a web search alone.
- `unread`: requests within one dialect whose conversation is not read.
- `outline`: the part of a request that its reply needs.
- `payload`: edits that the configuration of a provider asks for.
- `refused_fields`: removes fields that the target is known to refuse.
- `bodies`: JSON bodies. `transports`: frames as HTTP bodies. `own_answer`: an answer without an upstream.
- `translate`: the functions of the library; the gateway uses `plan` instead.
"""

from dragoman.pipeline.translate import (
    StreamTranslator,
    Translation,
    translate_error,
    translate_reply,
    translate_request,
)

__all__ = ["StreamTranslator", "Translation", "translate_error", "translate_reply", "translate_request"]
