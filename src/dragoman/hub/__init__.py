"""The shared language of all packages: requests, blocks, events, seals, losses and errors of every dialect.

Everything is a frozen value or a small state machine for one reply. Nothing here imports another package of
dragoman, waits, or reads a clock.

**Requests** (`request`). A `Request` is a conversation (`messages`, each with a role and blocks), the
declared `tools`, and settings. Readers of dialects build it, `fit` changes it for a target, writers write it.

**Blocks** (`blocks`). Messages and replies consist of blocks: text, refusal, reasoning, media, tool call,
tool result, hosted call and result, declarations, references, and `Opaque` for what only one dialect knows.
`AnyBlock` is the closed union of all, `ReplyBlock` of those that a reply can hold.

**Events** (`events`). A reply is a sequence of events in this order:

1. `ReplyStarted`, once. Only `ReplyFailed` may come instead of it.
2. For each block: `BlockOpened`, deltas, `BlockClosed`. Numbers count up from 0 in the order of opening;
   blocks may interleave. `UsageReported` may come anywhere in between.
3. One ending: `ReplyFinished`, with all blocks closed, or `ReplyFailed`, which leaves open blocks open.
   Nothing follows the ending.

Readers may give a run of similar deltas as one `DeltaRun`, which means the same as its single deltas.

**Grammar** (`reply_grammar`). Two tables have this order as data, and `GrammarChecker` enforces it. The other
state machines, each owned by one reply: `ReplyBuilder` (`builder`) gives readers legal events only;
`Sequencer` (`stage`) writes interleaved blocks one after another; `ReplyFolder` (`fold`) builds the whole
reply; `Tally` (`tally`) keeps the facts that logs and limits need. `Stage` (`stage`) is the interface of
everything between reader and writer.

**Unions are closed.** Code that handles every kind of block or event ends in `assert_never`, or is a table
that a test (`test_exhaustive.py` of hub and dialects) compares with the union. A new kind is an error there,
not a `KeyError` in production.

Further modules: `seal` (vendors' signatures and the envelope that carries them), `usage` (token counts),
`loss` (what a translation could not carry over), `ids` (reproducible ids), `errors` (the tree of errors),
`rounds` (one reply of several replies of the upstream).
"""
