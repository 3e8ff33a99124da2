"""The root of the command line. Subcommands load when they are called, so that `--help` is quick."""

import sys
from importlib import import_module

import click

from dragoman import __version__
from dragoman.hub.errors import DragomanError

#: Each command, where it lives, and the line that `dragoman --help` shows for it.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("dragoman.cli.serve:serve", "Serve every agent's API on one port."),
    "status": ("dragoman.cli.status:status", "Show what the running gateway is doing."),
    "reload": ("dragoman.cli.reload:reload", "Let the running gateway read its configuration again."),
    "sessions": ("dragoman.cli.sessions:sessions", "List, show and end sessions of Claude Code."),
    "run": ("dragoman.cli.run:run", "Start an agent against the gateway."),
    "env": ("dragoman.cli.env:env", "Print the variables that point an agent at the gateway."),
    "init": ("dragoman.cli.init:init", "Write a configuration file to grow from."),
    "import": ("dragoman.cli.import_:import_", "Make a configuration from another gateway's."),
    "config": ("dragoman.cli.config:config", "Check the configuration; list its keys."),
    "models": ("dragoman.cli.models:models", "List the models that clients may ask for; tell what is known."),
    "keys": ("dragoman.cli.keys:keys", "Make, list and revoke the keys that clients show."),
    "usage": ("dragoman.cli.usage:usage", "Show what was used, by key, model, provider or day."),
    "doctor": ("dragoman.cli.doctor:doctor", "Find out what is wrong, and what a model can do."),
    "translate": ("dragoman.cli.translate:translate", "Translate a request, a reply or a stream."),
    "check": ("dragoman.cli.check:check", "Judge a stream against its dialect's grammar."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = COMMANDS.get(cmd_name)
        if home is None:
            return None
        module, _, name = home[0].partition(":")
        command = getattr(import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """With a guess at what was meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{guess}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dragoman")
def root() -> None:
    """dragoman lets any coding agent work with any model, tools included.

    One process on your machine speaks every agent's API (Anthropic Messages, OpenAI Chat and Responses,
    Gemini) and every provider's, and translates between them.

    \b
    See it work, without a key:
      dragoman run claude            (or codex, gemini, opencode)
    Put your agent on your model:
      dragoman init                  writes dragoman.toml
      dragoman serve                 serves it on port 8484
    See what a request becomes:
      dragoman translate request --from anthropic --to openai_chat request.json
    """


def main() -> None:
    """Run the command; errors of our own tree become two lines and exit code 2."""
    try:
        root(prog_name="dragoman")
    except DragomanError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(2)
