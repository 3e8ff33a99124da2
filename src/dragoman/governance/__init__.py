"""Governance of tool calls: the client gets calls that are whole, parseable, declared and allowed.

Governance works on hub requests and hub events, so it is the same for every client and every upstream. It
does nothing if the settings in force are off (`settings.Governance.is_off`). The defaults are in
`config.governance`: calls of servers that are not a vendor's own API are held and repaired.

Modules, each named after the setting that it implements:

- `settings`: `Governance`, the settings of one route or model, and the table of their keys.
- `tool_choice`, `text_contract`: the changes to the request (`choice`, `exit`, `contract`).
- `stages`: builds the stages for one reply, in their order.
- `harvest/`: finds calls that the model wrote as text (`harvest`).
- `tool_names`: the declared tools, and `rename`.
- `hold`, `held_arguments`: hold arguments until they are whole, and repair them (`tools`, `on_unrepairable`).
- `repair/`: repairs the text of arguments (`repair`).
- `dedupe`: removes repeated calls. `call_queue` is its base and the guard's.
- `guard/`: rules that allow, deny or rewrite calls (`guard`, `on_denied`).
- `validate`, `schema_check`: check arguments against the tool's schema (`validate`).
- `reply_snapshots`: the reply before and after, for inspection (`snapshots`).
- `interventions`: the report of what a stage did.

Order of the stages for one reply: harvest, rename, exit tool, hold (with repair), dedupe, guard, validate. A
call is found before it is named, named before it is repaired, and whole before it is compared and judged.
`validate` comes last, because it describes what the client gets.

A denied call (`guard`) becomes a text for the client. With `on_denied = "model"` and no other call in the
reply, it is withheld, and `hub.rounds.RoundJoiner` keeps the reply open: the exchange sends the denials to
the model as tool results and feeds the next reply into the same pipeline.

State: every stage belongs to one reply and is fed by one task. Settings, rules and declared tools are
immutable. Compiled rules and schemas are cached for the process, in bounded caches. Stages call `Report`
for every intervention; the exchange writes the log line, the counters and the header.

To add a feature: add a field to `settings.Governance` and a row to `settings.KEYS`; write a stage
(`hub.stage`) in a module of its own; add it to `stages.build_stages` at its place in the order; if it
reports something new, add the kind to `interventions.InterventionKind` and its counter to
`exchange.interventions`; describe the key in docs/governance.md, which a test compares with `KEYS`.
"""
