"""Self-healing requests: what a refusal proves about a model, and what is remembered of it.

When a server refuses a request and its message names a field, a value or a limit, the message proves a fact
about the model. A request that is built anew with this fact is valid. `exchange` sends it,
for each target a few times at most.

- `refusals`: the table of messages, and `find_correction`, which searches it. Pure.
- `message_patterns`: the messages that only name a field, and those that are never healed. Pure.
- `corrections`: the values that a row of the table can have, and the facts about single fields. Pure.
- `repeated_text`: finds text of the client in a message. Pure.
- `learned`: `LearnedFacts` owns the facts of one gateway and stores them in the state file.
- `refused_seals`: `RefusedSeals` owns the hashes of seals that a provider has refused.

For a refused request: `find_correction`, then build the request with `add_learned_facts`; if it is accepted,
`LearnedFacts.remember`. Later requests get the facts of `LearnedFacts.find`.
"""
