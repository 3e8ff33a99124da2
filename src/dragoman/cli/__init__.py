"""The `dragoman` command.

- `main`: the root command and the table of subcommands. Each subcommand is imported when it is called.
- `serve`: `serve`. `background`: `start`, `stop` and `logs`. `run`: `run` and `env`. `status`: `status` and
  `reload`. `translate`: `translate` and `check`. Other modules have the name of their command.
- `agents`: how each agent is connected to the gateway, with `claude_settings`, `codex_catalogue` and
  `gemini_home` for what an agent reads besides variables, and `shells` for the output of `env`.
- `offers`, `new_config`: what `setup` offers, and the file that it writes.
- `connection`: the gateway's address, key and model for an agent, and the search for a running gateway.
- `process`: runs a gateway in this process. `notices`: files by which commands find running gateways.
- `admin`: the client of the admin API.
- `files`: input files, private files and the state database.
- `formats`: shared options, amounts, dates, tables, JSON and warnings. `completion`: names for shells.

Data goes to standard output, everything else to standard error. An error of the `DragomanError` tree is
printed as two lines (`error:`, `hint:`) with exit code 2.

To add a command, write a module with a click command, add a row to `main.COMMANDS` and a row to
`docs/commands.md`. To add an agent, add a row to `agents.AGENTS`.
"""
