"""The root command. Subcommands are imported when they are called, so `--help` and completion are fast."""

import sys
from importlib import import_module

import click

from dragoman import __version__
from dragoman.config.mistakes import list_mistakes
from dragoman.hub.errors import ConfigError, DragomanError

#: Each command, its module and function, and its line in `dragoman --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "setup": ("dragoman.cli.setup:setup", "Find a model, test it, write the configuration, start an agent."),
    "serve": ("dragoman.cli.serve:serve", "Serve the APIs of all agents on one port."),
    "start": ("dragoman.cli.background:start", "Start the gateway in the background."),
    "stop": ("dragoman.cli.background:stop", "Stop the running gateway."),
    "logs": ("dragoman.cli.background:logs", "Show the log of the gateway in the background."),
    "status": ("dragoman.cli.status:status", "Show what the running gateway does."),
    "reload": ("dragoman.cli.status:reload", "Reload the configuration of the running gateway."),
    "sessions": ("dragoman.cli.sessions:sessions", "List, show and end sessions of Claude Code."),
    "run": ("dragoman.cli.run:run", "Start an agent with the gateway."),
    "env": ("dragoman.cli.run:env", "Print the settings that connect an agent to the gateway."),
    "statusline": ("dragoman.cli.statusline:statusline", "Print the status line of Claude Code."),
    "import": ("dragoman.cli.import_:import_", "Convert the configuration of another gateway."),
    "config": ("dragoman.cli.config:config", "Check the configuration, show its values, list its keys."),
    "models": ("dragoman.cli.models:models", "List the model names, or show the facts about a model."),
    "explain": ("dragoman.cli.explain:explain", "Explain which rule and which targets a request gets."),
    "keys": ("dragoman.cli.keys:keys", "Create, list, change and revoke client keys."),
    "state": ("dragoman.cli.state:state", "Check, migrate and copy the state of the gateway."),
    "usage": ("dragoman.cli.usage:usage", "Show usage and cost, by key, model, provider or day."),
    "records": ("dragoman.cli.records:records", "List, show, export and import recorded sessions."),
    "page": ("dragoman.cli.page:page", "Print the address of the web page, and its token."),
    "activity": ("dragoman.cli.activity:activity", "Show what agents report: lines, commits, decisions."),
    "top": ("dragoman.cli.top:top", "Show open exchanges and sessions, updated every second."),
    "replay": ("dragoman.cli.replay:replay", "Serve a recorded session to an agent again."),
    "fork": ("dragoman.cli.replay:fork", "Continue a recorded session with another model."),
    "bisect": ("dragoman.cli.replay:bisect", "Find the turn where two recorded sessions part."),
    "diff": ("dragoman.cli.replay:diff", "Compare two recorded sessions."),
    "prompts": ("dragoman.cli.prompts:prompts", "Try prompt rules on recorded requests."),
    "cache": ("dragoman.cli.cache:cache", "Explain the prompt cache of a recorded session."),
    "doctor": ("dragoman.cli.doctor:doctor", "Report what is wrong, and what a model supports."),
    "docs": ("dragoman.cli.docs:docs", "Show the documentation in the terminal."),
    "translate": ("dragoman.cli.translate:translate", "Translate a request, a reply or a stream."),
    "check": ("dragoman.cli.translate:check", "Check a recorded stream against the rules of its dialect."),
}
#: Names of other programs for the same thing.
RENAMED = {"init": ["setup"], "log": ["logs"]}
#: Other names of commands, which `--help` does not list.
ALIASES = {"rules": "prompts"}


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if row is None:
            return None
        module, _, name = row[0].partition(":")
        command = getattr(import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, suggest a similar one."""
        if args and args[0] not in (*COMMANDS, *ALIASES) and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = RENAMED.get(args[0], []) or get_close_matches(args[0], COMMANDS, n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{guess}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="dragoman")
def root() -> None:
    """dragoman connects any coding agent to any model, tool calls included.

    One process on your machine serves the APIs of all agents (Anthropic Messages, OpenAI Chat and Responses,
    Gemini), calls the API of any provider, and translates between them.

    \b
    Try it without a key:
      dragoman run claude            (or codex, gemini, opencode)
    Use your agent with your model:
      dragoman setup                 finds your models and writes dragoman.toml
      dragoman run claude            uses it
    See the translation of a request:
      dragoman translate request --from anthropic --to openai_chat request.json
    """


def main() -> None:
    """Run the command. A `DragomanError` is printed with its hint, with exit code 2."""
    if sys.argv[1:2] == ["serve"]:
        # The rest takes most of a second to load, and the signal to reload may come at any time.
        from dragoman.server.reload_signal import ignore_early_reload

        ignore_early_reload()
    try:
        root(prog_name="dragoman")
    except DragomanError as error:
        print_error(error)
        sys.exit(2)


def print_error(error: DragomanError) -> None:
    """Print an error and its hint on standard error; of a configuration file, every mistake."""
    for each in list_mistakes(error) if isinstance(error, ConfigError) else (error,):
        click.echo(f"{click.style('error:', fg='red')} {each.message}", err=True)
        if each.hint:
            click.echo(f"hint: {each.hint}", err=True)
