"""Client keys, limits, reservations, prices and usage: who may use what, and who used how much.

For the exchange there is `ExchangeUsage`, one per exchange, with this call order: `check_model` (may the key
use this model?), `reserve` (do the limits admit the request?), and at the end always `settle` exactly once.
The exchange passes values: the caller, targets, a function that reads the request, and an
`ExchangeOutcome`.

- `accounts`: `Accounts` owns the keys and the ledger. A gateway builds it once.
- `usage`: `ExchangeUsage`.
- `keys`: `Caller`, `ClientKey`, the check of allowed models, and the SQL of the stored keys.
- `key_cache`: `ClientKeyCache` owns the copy of the stored keys in memory.
- `limits`: `Limits`, `Account` and `decide`. Pure: no clock, no file, no event loop.
- `estimates`: tokens and costs before and after an exchange, `PriceList`. Pure.
- `ledger`: `UsageLedger` owns the open reservations and the writes that are pending (`pending`).
- `journal`: `UsageJournal`, what is pending, for the case that the process is killed.
- `leases`, `lease_book`: slices of the limits of busy keys, which one process spends by itself.
- `outage`: limits while the shared state does not answer.
- `store`: the tables (`ACCOUNTS_SCHEMA`) and the SQL of reservations and spending.
- `statistics`: the usage by hour, and its SQL.
- `device_codes`: codes that a person approves, so that an agent may sign in. Pure.
- `sign_ins`: the tokens of agents that have signed in, and their SQL.
- `session_limits`: what sessions have used, their limits and the loop breaker. Pure.
- `activity`: what agents report about their work, and its SQL.
- `standing`: what a key has spent, for its owner. `key_report`: a key as JSON, for the operator.
- `errors`: the errors that a client receives, and the texts of amounts.

The state owns everything that outlives the process. It may be shared by several gateways; commands use the
functions of `keys` and `store` directly.
"""
