"""The state file: one SQLite database that outlives the process.

The package knows nothing of the stored data. Each package that stores something defines a `Schema` (its
tables, as migration steps) and its own SQL, and passes both to the database.

- `database`: `Schema`, `connect` for one-time use in commands, `Database` for a running gateway.
- `processes`: names of the processes that share the file, and whether one of them still runs.

`Database` owns the connection and the only thread that uses it. Call order: construct it, `add_schema` for
each package at any time before that package's first `run`, then `run` or `run_now`, and `close` at the end.
"""
