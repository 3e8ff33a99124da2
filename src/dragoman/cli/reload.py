"""`dragoman reload`: let the gateway that runs read its configuration again."""

import click

from dragoman.cli.operator import Operator, operator_options


@click.command()
@operator_options
def reload(path: str | None, url: str) -> None:
    """Let the gateway read its configuration again, without dropping a stream.

    It does so by itself when the file changes, and on SIGHUP. What is open goes on as it began; what is new
    follows the new file. A file with a mistake in it is refused and changes nothing.
    """
    operator = Operator(path, url)
    told = operator.call("POST", "/admin/reload")
    click.echo(f"reloaded {told['config'] or 'without a file: the embedded model answers'}")
    for name, what in told["changed"].items():
        click.echo(f"  changed: {name}{': ' + ', '.join(what) if isinstance(what, list) else ''}")
    if not told["changed"]:
        click.echo("  nothing has changed")
    if told["needs_restart"]:
        click.echo(f"  needs a new start of the gateway: {', '.join(told['needs_restart'])}", err=True)
