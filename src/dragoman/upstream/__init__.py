"""Upstreams: everything that answers a request of the gateway.

Modules and packages:

- `port`: what every kind of upstream offers (`Upstream`, `UpstreamRequest`, `UpstreamReply`), and three
  optional abilities (`PushReply`, `SessionUpstream`, `EarlyUpstream`).
- `kinds`: finds the package of a kind. `build_upstream` builds the upstream of a configured provider.
- `http`: providers that are called over HTTP/1.1. The kind of every dialect that is no local program.
- `embedded`: a deterministic model inside this process, for trying and testing.
- `claude_code`: Claude Code as a model with the caller's own tools. The only kind that keeps sessions.

A new local program is a package here and a row of the same name in `providers/local_programs.py`; see
`kinds`.

State: the exchange holds one upstream per provider, builds it on first use and closes it when no exchange
uses its configuration any more. An upstream owns its connections, processes and sessions. A reply is owned
by the task that called `send`.

Call order: `build_upstream`, then `send` any number of times and in parallel. For each reply: `pieces` or
`push_to`, then `close`, also after an error. At the end `Upstream.close`, once.
"""
