"""The guard: rules that decide which tool calls of a model reach the client.

The guard reads the text of a call. It is no sandbox: a program that an allowed call starts can do anything.

Modules:

- `rules`: `GuardRule`, read from configuration tables or from the ready sets in `rule_sets/*.toml`.
- `verdicts`: applies the rules of one route to one whole call and returns a `Verdict`.
- `patterns`: regular expressions and globs of rules, on RE2.
- `shell`: splits shell text into its commands and operators, without running anything.
- `commands`: adds the commands that those commands run in turn.
- `shell_fold`: the rewrite that hands an argument list to `bash -lc`.
- `stage`: `GuardStage` holds each guarded call until it is whole, then sends, rewrites or removes it.

State: `GuardStage` lives for one reply of the upstream. Everything else is immutable.
"""
