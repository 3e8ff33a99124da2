"""The other gateways with the same state: calls of Claude Code that wait at one of them, and hints.

A session of Claude Code waits for the results of its calls in one process. The calls are stored in the state,
with the address of that gateway. A gateway that receives a result for another one forwards the request to it
and passes the reply on. If that gateway does not answer, the request is replayed from its history.

- `store`: the tables (`PEERS_SCHEMA`), their SQL, and the secret that the gateways share.
- `forwarding`: the request and the reply between two gateways, and its signature. Pure.
- `calls`: `SharedCalls`, the port `WaitingCalls` of the upstreams.
- `hints`: `SharedHints`, cooldowns and speeds of targets at the other gateways.

Call order: `SharedCalls.announce` once, when the address is known; before, nothing is shared.
`server/peer_turns.py` answers the requests of other gateways.
"""
