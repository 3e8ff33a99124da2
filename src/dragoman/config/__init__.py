"""The configuration: one TOML file, checked, as immutable values.

- `value_kinds`: `Kind`, the accepted values of a key, and `ConfigKey`; the keys of a struct.
- `settings`, `provider`, `config`, `rules`, `prompts`, `tools`, `steps`, `agents`: the structs. Their fields
  are the keys: a new key is one new field. `config.list_tables` lists them all.
- `lines`: the line of each key in a TOML text.
- `document`: `TomlDocument` and `TomlTable`, which check keys and raise errors with the line.
- `secrets`: secrets from the file or from environment variables.
- `governance`: the governance tables.
- `model_facts`: facts about models by source, the learned file, prices, and the explanation of each fact.
- `load`: the tables of the file as `Config`, with `load_provider`, `load_routes`, `load_rules`, `load_tools`
  and `load_payload` for the tables that need more than a conversion by type.
- `rule_warnings`: rules, roles and functions without an effect.
- `mistakes`: all mistakes and warnings about a file, in the order of its lines.
- `effective`: every key with the value that applies.
- `find`: the places of the file and of the state folder; the configuration without a file.

Commands call `find_config`. It finds the path and calls `load_file`, which reads every table and raises the
mistakes of all tables together (`ConfigMistakes`; a single one as `ConfigError`). A `Config` never changes; a
reload builds a new one.
"""
