"""Makes a request legal for its target, and the reply legal for the client again.

Everything here is pure and depends on `TargetFacts`, never on the name of a dialect or model. The
request is a frozen value: each pass returns a new one, or the same object if there is nothing to change. What
cannot be sent as the client sent it is added to `Losses`.

Order of calls for one exchange: `fit(request, target, losses)` before the request is written;
`build_restoration(request, target)` with the client's own request; `build_reply_stages(...)`, whose stages
get the events of the reply in order. The stages own the state of one reply; nothing else keeps state.

The passes, one module per kind of fact:

- `passes`: the table of all passes with their order and scope, and `fit`.
- `front`: the passes over settings and tools, apart from the conversation.
- `settings`: the passes over the settings alone, if a request for its own dialect needs no others.
- `editing`: edits of frozen requests, shared by the passes.
- `vendor_fields`: stored state, account fields, fields without an equivalent.
- `names`, `ids`: tool names and call ids; each also has the stage that restores them in the reply.
- `tools`, `client_tools`: kinds of tools, and descriptions of vendors' own tools as functions.
- `schemas`: schemas of tools and of the answer; the format of the answer.
- `seals`: signatures of vendors and the reasoning that they belong to; also a stage.
- `content`: vendor blocks, refusals, errors, media.
- `history`, `messages`: calls next to results; order and roles of messages.
- `reasoning`, `choice`, `generation`, `stops`, `caching`: the settings. `stops` is also a stage.

The way back:

- `reply`: `Restoration`, and which stages a reply needs.
- `arguments`: the stage for clients that read arguments as an object.
"""

from dragoman.fit.names import NameMap
from dragoman.fit.passes import PASSES, Pass, Scope, fit
from dragoman.fit.reply import ClientTraits, Restoration, build_reply_stages, build_restoration

__all__ = [
    "PASSES",
    "ClientTraits",
    "NameMap",
    "Pass",
    "Restoration",
    "Scope",
    "build_reply_stages",
    "build_restoration",
    "fit",
]
