"""`dragoman doctor`: finds what is wrong with an installation and what a model supports.

The environment checks read files, variables and the port, and send one empty request to each provider. The
examination of a model sends small requests through a gateway of its own in this process, so the model is
tested exactly as an agent would use it.

- `findings`: `Finding` and `Examination`, the results that `dragoman doctor` prints.
- `environment`: checks of the configuration, keys, file permissions, the port and the providers.
- `examine`: runs the probes in order and turns each outcome into a finding. Entry point: `examine`.
- `probes`: the table `PROBES` and the functions that test answers, limits, reasoning and media.
- `tool_probes`: the functions that test tool calls.
- `probe_types`: `Probe`, `Remedy`, `ProbeOutcome`, and the functions that build outcomes.
- `conversation`: `ModelConversation` sends the questions; it owns the token budget and the assumed facts.
- `replies`: `ProbeReply`, one reply as the client received it and as the provider sent it.
- `servers`: model servers on this machine and what they report; also for `dragoman setup` and `dragoman run`.
- `server_kinds`: the table `KINDS` of the servers that are recognised.
- `endpoint`: the checks as an endpoint of the admin API.
- `learned`: writes the learned facts to `dragoman.learned.toml`.

To add a probe, write an async function that takes a `ModelConversation` and returns a `ProbeOutcome`, and add
one row to `probes.PROBES` and one to `docs/doctor.md`. A probe needs only probes that stand before it.
"""
