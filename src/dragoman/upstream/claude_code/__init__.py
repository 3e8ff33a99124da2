"""Claude Code as an upstream: it thinks, the caller's own tools act, and a session spans many requests.

Modules:

- `upstream`: `ClaudeCodeUpstream`, the port. Reads a request, matches it to a session, builds the reply.
- `matching`: decides which session a request continues. Pure.
- `conversation`: a Messages body as items; fingerprints of histories. Pure.
- `session_pool`: `SessionPool`, all sessions of a provider: lookup, start, spares, limits, end.
- `session`: `ClaudeSession`, one process and the state of its conversation.
- `turn`: `SessionTurn` and `TurnReply`, one request of a session until its reply is complete.
- `reply_joiner`: joins the events of a turn into one Messages reply. Pure.
- `transcript`: writes a history as a transcript from which a new process continues. Pure.
- `tools`: the caller's tools: names, MCP server, pending results, permissions.
- `process`: the Agent SDK, and `ClaudeProcess`, the operating system process. `launch` is its start script.
- `folders`: files of sessions, session ids, removal of what a killed gateway left.
- `errors`: the errors of this package.

Owners of state: the upstream owns the pool. The pool owns the sessions, the spares, the indexes from call ids
and fingerprints to sessions, and the folders. A session owns one process, one SDK client, the results that
Claude Code waits for, and the fingerprint of its history. A turn owns nothing that outlives its reply.

States of a session:

    running ──reply with calls──▶ parked ──results or user content──▶ running
    running ──reply without calls──▶ idle ──user content──▶ running
    running ──caller hangs up, or an error──▶ settling ──Claude Code has stopped──▶ idle
    any state ──expiry, eviction, operator, crash, close──▶ ended

Call order for one request: `SessionRequest` → `match_request` → either `SessionPool.begin` (a new process, or
a spare; a history is replayed from a transcript) or `ClaudeSession.take` → `SessionTurn.read_piece` until the
reply is complete → `ClaudeSession.mark_idle`. While a session is parked, its calls wait in the MCP server
(`PendingResults`), and the process stays alive.

The caller's history is authoritative, and a session is a cache of it: see docs/decisions/0009. The Agent SDK
is imported on the first request.
"""
