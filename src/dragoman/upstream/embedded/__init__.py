"""The embedded model: deterministic, without a key or a network, for trying and testing.

It serves OpenAI Chat inside the process, so every client reaches it the same way as a real server. It finds
commands in the last prompt (`read FILE`, `run COMMAND`, `fail with 429` …), carries them out with the
client's own tools, and then shows the results. docs/embedded-model.md lists the commands.

Modules:

- `upstream`: `EmbeddedUpstream`, the port. Writes an answer as a whole reply or as a stream.
- `model`: `answer_request`, the rules from a Chat request to an `EmbeddedAnswer`.
- `commands`: finds commands in plain text.
- `tools`: finds the declared tool for a command; builds example values for JSON Schemas.

There is no state: the same request always gets the same answer, with the same ids.
"""
