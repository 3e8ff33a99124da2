"""Recognises the coding agents that send requests: which agent, which session, which sub-agent.

`identify_client` reads the headers of a request and returns a `ClientIdentity`. It is pure and cheap, and it
never fails: a client that no row of `AGENTS` describes is identified by its `user-agent` alone.

- `identity`: `ClientIdentity`, `identify_client`, and the table `AGENTS` with one `AgentHeaders` per agent.

Logs, usage, metrics, limits per session, routing rules and records all use this identity, so that they agree
about what a session is. A new agent is a new row of `AGENTS`. How an agent is started is not known here: see
`cli.agents`.
"""

from dragoman.agents.identity import AGENTS, ClientIdentity, identify_client

__all__ = ["AGENTS", "ClientIdentity", "identify_client"]
