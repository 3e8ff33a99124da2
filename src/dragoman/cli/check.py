"""`dragoman check`: is this stream what its dialect's strictest reader expects?"""

import click

from dragoman.cli.files import DIALECT, read_file
from dragoman.dialects.registry import dialect_named


@click.group()
def check() -> None:
    """Judge recorded traffic against a dialect's grammar."""


@check.command()
@click.option("--dialect", type=DIALECT, required=True, help="The dialect the stream is in.")
@click.argument("file", default="-", metavar="[FILE|-]")
def stream(dialect: str, file: str) -> None:
    """Say where a recorded event stream breaks its dialect's grammar; exit code 1 if it does."""
    violations = dialect_named(dialect).check_stream(read_file(file))
    for violation in violations:
        click.echo(f"frame {violation.frame}: {violation.message}")
    if violations:
        raise SystemExit(1)
    click.echo(f"a legal {dialect} stream", err=True)
