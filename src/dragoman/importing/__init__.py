"""Converts the configuration of another gateway to dragoman's, and reports what has no equivalent.

No setting is ignored silently: each key of the other file is converted, not needed here, or noted. Secrets
become references to environment variables; their values appear neither in the file nor in the report.

- `draft`: `ConfigDraft`, which collects providers, routes and notes and writes the TOML text.
- `vendors`: maps vendors, endpoints and transformers of other gateways to presets and dialects.
- `ccr`: claude-code-router's `config.json`. Entry point: `import_ccr`.
- `transformers`: claude-code-router's transformers, and what dragoman has instead of each.
- `litellm`: the LiteLLM proxy's `config.yaml`. Entry point: `import_litellm`.
- `deployment`: one entry of LiteLLM's `model_list`.

To add an importer, write a module with a function that takes the text of the file and returns a
`ConfigDraft`, add its vendors to `vendors`, and add a command to `dragoman.cli.import_`.
"""
