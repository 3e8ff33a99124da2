"""One client request and its reply, end to end.

Theory of operation
-------------------
`Exchange` (exchange) runs one request. It takes the gateway's current `ConfigSnapshot` and keeps it to its
end. It checks the caller's limits (`accounts`), chooses targets (`routing`), and calls them in order until
one answers. A `TargetTrial` (trial) calls one target with one key, with retries. For every call it builds an
`UpstreamCall` (upstream_call), which sends the `TargetRequest` and feeds the reply to a `ReplyPipeline`
(`pipeline`). These are the only four nested objects of a call.

If the route has `hedge`, `HedgedTrials` (hedge) runs the trial of a slow target and that of the next one at
once. Each has its own `ExchangeRecord` and `Watchdog` until its first content. Then it gets those of the
exchange, and the other is cancelled and charged.

The output of the pipeline goes to the `ResponseSender` (sender), which owns the client's connection and knows
what was sent: no head, a head, content, or the end. Before the first content (the first block that opens,
`Tally.has_content`), a failure is raised to the exchange, which retries, uses another key or another target;
the client notices nothing. After the first content, the failure is written in the client's dialect and the
exchange ends.

The `Watchdog` (watchdog) belongs to one exchange. It ends an upstream's reply that is silent or takes too
long, sends pings to a waiting client, and abandons a client that accepts nothing. One timer task checks all
watchdogs. A client that closes its connection abandons its exchange, which closes the upstream's reply.

At the end, in any case, the usage is settled and the `ExchangeRecord` (record) goes to `Gateway.observers`.

State
-----
- `gateway`: `Gateway` owns what all exchanges share: snapshots, accounts, health of targets, observers.
- `config_snapshot`: one configuration with a `ProviderHandle` per provider; handles own upstreams.
- `selection`: rules and routes: which targets a request has. `target_requests`: the request for each of them.
- `exchange`, `context`, `trial`, `hedge`, `upstream_call`, `sender`, `watchdog`, `record`: of one exchange.
- `kind`: what many exchanges have in common, for log lines and metrics.
- `client`: the port to a client's connection. HTTP, WebSockets and background runs implement it.
- `healer`: `RequestHealer` corrects the refused requests of one exchange; the gateway owns what is learned.
- `sessions`: counts exchanges for their sessions, and checks the limits of sessions.
- `tap`: the port of a recorder, which may see the bytes of an exchange.
- `interventions`: what governance changed. `tools`: the gateway's own tools in one exchange.
- `large_bodies`: work on a large body runs in a thread.
- `context_windows`: targets whose window can hold the request. `pass_through`: the client's own credential.
- `client_failure`: the failure of a target as clients see it. `storage`: opens the state.

Call order: `Exchange(gateway, plan, client, caller)`, then `run` once. `stop` and `abandon` may be called by
other tasks while it runs.

Five files explain the path of a request: this docstring and that of `pipeline/__init__.py`, then
`server/app.py`, `exchange/exchange.py` and `exchange/upstream_call.py`.
"""
