"""The state that outlives the process: a SQLite file, or a PostgreSQL database that several gateways share.

The package knows nothing of the stored data. Each package that stores something defines a `Schema` (its
tables, as migration steps) and its own SQL, and passes both to a `StateStorage`.

- `port`: `StateStorage` and `Transaction`, what the other packages use.
- `sqlite`, `postgres`: the two implementations.
- `database`: `Schema`, and the engine of SQLite: `connect`, and `Database`, a file with its thread.
- `copy`: copies a SQLite state into PostgreSQL.
- `journal`: files with what a process will write a moment later, for the case that it is killed.
- `processes`: names of the processes that share the state, and whether one of them still runs.

Call order: construct a storage, `add_schema` for each package at any time before that package's first work,
then `run` or `read`, and `close` at the end.
"""
