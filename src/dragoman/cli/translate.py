"""`dragoman translate` and `dragoman check`: translate or check a request, a reply or a stream in files."""

import sys
import time
from collections.abc import Callable

import click

from dragoman.cli.files import DIALECT, read_file, read_governance_file, read_pieces, read_profile
from dragoman.cli.formats import format_json
from dragoman.dialects.registry import dialect_named
from dragoman.governance.interventions import Intervention
from dragoman.governance.settings import Governance
from dragoman.hub.loss import Loss, Losses
from dragoman.pipeline import StreamTranslator, translate_reply, translate_request

_FROM = click.option("--from", "source", type=DIALECT, required=True, help="Dialect of the input.")
_TO = click.option("--to", "target", type=DIALECT, required=True, help="Dialect of the output.")
_PROFILE = click.option(
    "--profile",
    metavar="FILE",
    help="File with facts about the provider's model (TOML or JSON), such as `images = false`.",
)
_REQUEST = click.option(
    "--request",
    "request_file",
    metavar="FILE",
    help="The client's original request. It restores the client's tool names and ids.",
)
_STRICT = click.option("--strict", is_flag=True, help="Fail with exit code 2 if anything would be lost.")
_MODEL = click.option("--model", default="", help="Model name, if it was in the URL (Gemini clients).")
_GOVERNANCE = click.option(
    "--governance",
    "governance_file",
    metavar="FILE",
    help='File with governance settings (TOML or JSON), such as `tools = "hold"`. Needs --request.',
)
_FILE = click.argument("file", default="-", metavar="[FILE|-]")


@click.group()
def translate() -> None:
    """Translate a request, a reply or a stream from one dialect to another.

    The result goes to standard output. Losses go to standard error, one line each, with the place and the
    reason. The input is FILE, or standard input for `-`.
    """


def _reply_command(function: Callable[..., None]) -> click.Command:
    """The command for a whole or a streamed reply: both take the same options."""
    for option in (_FILE, _MODEL, _STRICT, _GOVERNANCE, _PROFILE, _REQUEST, _TO, _FROM):
        function = option(function)
    return translate.command()(function)


@translate.command()
@_FROM
@_TO
@_PROFILE
@_STRICT
@_MODEL
@click.option("--stream", is_flag=True, help="The URL requested a stream (Gemini clients).")
@_FILE
def request(
    source: str, target: str, profile: str | None, strict: bool, model: str, stream: bool, file: str
) -> None:
    """Translate a request from the client's dialect (--from) to the provider's (--to)."""
    result = translate_request(
        read_file(file),
        source=source,
        target=target,
        profile=read_profile(profile, target),
        strict=strict,
        model=model,
        stream=stream,
    )
    click.echo(format_json(result.body))
    _print_losses(result.losses)


@_reply_command
def reply(
    source: str,
    target: str,
    request_file: str | None,
    profile: str | None,
    governance_file: str | None,
    strict: bool,
    model: str,
    file: str,
) -> None:
    """Translate a complete reply from the provider's dialect (--from) to the client's (--to)."""
    result = translate_reply(
        read_file(file),
        source=source,
        target=target,
        request=read_file(request_file) if request_file else None,
        profile=read_profile(profile, source),
        created=int(time.time()),
        model=model,
        governance=_read_governance(governance_file, request_file),
    )
    if strict:
        Losses(result.losses).refuse_if_any()
    click.echo(format_json(result.body))
    _print_losses(result.losses)
    _print_interventions(result.interventions)


@_reply_command
def stream(
    source: str,
    target: str,
    request_file: str | None,
    profile: str | None,
    governance_file: str | None,
    strict: bool,
    model: str,
    file: str,
) -> None:
    """Translate a streamed reply from the provider's dialect (--from) to the client's (--to)."""
    translator = StreamTranslator(
        source=source,
        target=target,
        request=read_file(request_file) if request_file else None,
        profile=read_profile(profile, source),
        created=int(time.time()),
        model=model,
        governance=_read_governance(governance_file, request_file),
    )
    out = sys.stdout.buffer
    for piece in read_pieces(file):
        out.write(translator.feed(piece))
        out.flush()
    out.write(translator.close())
    out.flush()
    _print_losses(translator.losses)
    _print_interventions(translator.interventions)
    if strict:
        Losses(translator.losses).refuse_if_any()
    if translator.failure is not None:
        click.echo(f"the reply failed: {translator.failure.message}", err=True)
        raise SystemExit(1)


def _read_governance(name: str | None, request_file: str | None) -> Governance | None:
    if name is None:
        return None
    if request_file is None:
        raise click.UsageError("--governance needs --request: only the request declares the tools")
    return read_governance_file(name)


def _print_interventions(interventions: tuple[Intervention, ...]) -> None:
    for each in interventions:
        parts = (each.kind, each.tool, ", ".join(each.detail), each.reason)
        click.echo("governance: " + " ".join(part for part in parts if part), err=True)


def _print_losses(losses: tuple[Loss, ...]) -> None:
    for loss in losses:
        click.echo(f"loss: {loss}", err=True)


@click.group()
def check() -> None:
    """Check recorded traffic against the rules of a dialect."""


@check.command("stream")
@click.option("--dialect", type=DIALECT, required=True, help="Dialect of the stream.")
@_FILE
def check_stream(dialect: str, file: str) -> None:
    """Report where a recorded event stream breaks the rules of its dialect; exit code 1 if it does."""
    violations = dialect_named(dialect).check_stream(read_file(file))
    for violation in violations:
        click.echo(f"frame {violation.frame}: {violation.message}")
    if violations:
        raise SystemExit(1)
    click.echo(f"a valid {dialect} stream", err=True)
