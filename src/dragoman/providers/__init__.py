"""Facts about models and the servers that provide them, as data.

- `facts`: `Facts`, the table of all facts: name, type, meaning and permissive default.
- `dialect_facts`: the values of each API that differ from the defaults.
- `profile`: `Profile`, the stated facts about one model; `build_target_facts` completes them for one request
  (`TargetFacts`).
- `local_programs`: `LOCAL_PROGRAMS`, the providers that are programs on this machine, with all that differs.
- `prices`: `Prices` from the facts of a model, and the cost of a reply.
- `presets`: reads the shipped data. `presets.toml` has known providers: dialect, address, key variable, and
  facts about all their models. `catalogue/` has published facts about single models, a file for each vendor.

Everything here is immutable. The configuration merges preset, catalogue, learned facts and file into a
`Profile`; `build_target_facts` adds the dialect's facts for each request.
"""
