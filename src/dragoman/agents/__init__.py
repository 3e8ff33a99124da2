"""Recognises the coding agents that send requests: which agent, which session, which sub-agent, and why.

`identify_client` reads the headers of a request and returns a `ClientIdentity`. It is pure and cheap, and it
never fails: a client that no row of `AGENTS` describes is identified by its `user-agent` alone.

- `identity`: `ClientIdentity`, `identify_client`, and the table `AGENTS` with one `AgentHeaders` per agent.
- `request_classes`: `classify` separates the user's work from titles, probes, compaction and other chores.
- `instructions`: what an agent writes into the system text: its project, markers of roles, the model's tag.

Logs, usage, metrics, limits per session, routing rules and records all use this identity, so that they agree
about what a session is. A new agent is a new row of `AGENTS`, and rows of `SIGNS` for its chores. How an
agent is started is not known here: see `cli.agents`.
"""

from dragoman.agents.identity import AGENTS, ClientIdentity, identify_client
from dragoman.agents.request_classes import (
    REQUEST_CLASSES,
    ClassifiedBody,
    ClassSign,
    RequestClass,
    classify,
)

__all__ = [
    "AGENTS",
    "REQUEST_CLASSES",
    "ClassSign",
    "ClassifiedBody",
    "ClientIdentity",
    "RequestClass",
    "classify",
    "identify_client",
]
