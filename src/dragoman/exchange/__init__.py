"""One client request and its reply, end to end.

Theory of operation
-------------------
`Exchange` (exchange) runs one request. It takes the gateway's current `ConfigSnapshot` and keeps it to its
end. It checks the caller's limits (`accounts`), chooses targets (`routing`), and calls them in order until
one answers. A `TargetTrial` (trial) calls one target with one key, with retries. For every call it builds an
`UpstreamCall` (upstream_call), which sends the `TargetRequest` and feeds the reply to a `ReplyPipeline`
(`pipeline`). These are the only four nested objects of a call. The pipeline of a streamed reply is built
while the upstream works (`TargetRequest.prepare_reply`).

If the route has `hedge`, `HedgedTrials` (hedge) runs the trial of a slow target and that of the next one at
once. Each has its own `ExchangeRecord` and `Watchdog` until its first content. Then it gets those of the
exchange, and the other is cancelled and charged.

The output of the pipeline goes to the `ResponseSender` (sender), which owns the client's connection and knows
what was sent: no head, a head, content, or the end. Output is held until the first content (the first block
that opens, `Tally.has_content`). There are three exceptions (`UpstreamCall._receive_first`): it is sent
earlier if a call is held only for a limited time, or if 1 MiB of the reply has come (`MAX_HELD`); on a route
with `on_refusal` it is still held while the reply is a refusal so far. A failure before the output is sent is
raised to the exchange, which retries, uses another key or another target; the client notices nothing. A later
failure is written in the client's dialect and the exchange ends.

The middle of a streamed reply may take a direct way: the upstream's connection calls the pipeline and writes
its output to the client's connection, without waking the exchange's task. That needs a `PushReply` and a
`DirectConnection`. The first output and the end always go through the sender. While the client is slow, the
upstream is not read.

The `Watchdog` (watchdog) belongs to one exchange. It ends an upstream's reply that is silent or takes too
long, sends pings to a waiting client, and abandons a client that accepts nothing. One timer task checks all
watchdogs. A client that closes its connection abandons its exchange, which closes the upstream's reply.

At the end, in any case, the usage is settled and the `ExchangeRecord` (record) goes to `Gateway.observers`.

State
-----
- `gateway`: `Gateway` owns what all exchanges share: snapshots, accounts, health of targets, observers.
- `config_snapshot`: one configuration with a `ProviderHandle` per provider; handles own upstreams.
- `selection`: rules and routes: which targets a request has. `rule_functions`: the Python functions of rules.
- `target_requests`: the request for each target.
- `exchange`, `context`, `trial`, `hedge`, `upstream_call`, `sender`, `watchdog`, `record`: of one exchange.
- `kind`: what many exchanges have in common, for log lines and metrics.
- `client`: the port to a client's connection. HTTP, WebSockets and background runs implement it.
- `healer`: `RequestHealer` corrects the refused requests of one exchange; the gateway owns what is learned.
- `sessions`: counts exchanges for their sessions, and checks the limits of sessions.
- `tap`: the port of a recorder. A tap wraps the client and each upstream's reply, and so sees their bytes.
- `interventions`: what governance changed. `tools`: the gateway's own tools in one exchange.
- `large_bodies`: work on a large body runs in a thread.
- `context_windows`: targets whose window can hold the request. `pass_through`: the client's own credential.
- `client_failure`: the failure of a target as clients see it. `storage`: opens the state.

Call order: `Exchange(gateway, plan, client, caller)`, then `run` once. `stop` and `abandon` may be called by
other tasks while it runs.

Five files explain the path of a request: this docstring and that of `pipeline/__init__.py`, then
`server/app.py`, `exchange/exchange.py` and `exchange/upstream_call.py`.
"""
