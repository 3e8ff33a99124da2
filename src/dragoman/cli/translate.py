"""`dragoman translate`: JSON or SSE in, JSON or SSE out, losses on stderr."""

import sys
import time

import click
import msgspec

from dragoman.cli.files import DIALECT, read_file, read_pieces, read_profile
from dragoman.hub.loss import Loss, Losses
from dragoman.pipeline import StreamTranslator, translate_reply, translate_request

_FROM = click.option("--from", "source", type=DIALECT, required=True, help="The dialect of the input.")
_TO = click.option("--to", "target", type=DIALECT, required=True, help="The dialect of the output.")
_PROFILE = click.option(
    "--profile",
    metavar="FILE",
    help="Facts about the upstream model (TOML or JSON), such as `images = false`.",
)
_REQUEST = click.option(
    "--request",
    "request_file",
    metavar="FILE",
    help="The client's original request: it gives back the names, ids and kinds that the client knows.",
)
_STRICT = click.option("--strict", is_flag=True, help="Refuse instead of losing anything; exit code 2.")
_MODEL = click.option("--model", default="", help="The model's name, where the URL said it (gemini clients).")
_FILE = click.argument("file", default="-", metavar="[FILE|-]")


@click.group()
def translate() -> None:
    """Translate a request, a reply or a stream from one dialect to another.

    The result goes to stdout. What could not be carried over goes to stderr, one line each: where it
    stood, and why. Input is FILE, or stdin for `-`.
    """


@translate.command()
@_FROM
@_TO
@_PROFILE
@_STRICT
@_MODEL
@click.option("--stream", is_flag=True, help="The URL asked for a stream (gemini clients).")
@_FILE
def request(
    source: str, target: str, profile: str | None, strict: bool, model: str, stream: bool, file: str
) -> None:
    """A client's request (--from) as the upstream's dialect (--to) says it."""
    result = translate_request(
        read_file(file),
        source=source,
        target=target,
        profile=read_profile(profile, target),
        strict=strict,
        model=model,
        stream=stream,
    )
    _print_json(result.body)
    _tell(result.losses)


@translate.command()
@_FROM
@_TO
@_REQUEST
@_PROFILE
@_STRICT
@_MODEL
@_FILE
def reply(
    source: str,
    target: str,
    request_file: str | None,
    profile: str | None,
    strict: bool,
    model: str,
    file: str,
) -> None:
    """An upstream's whole reply (--from) as the client's dialect (--to) says it."""
    result = translate_reply(
        read_file(file),
        source=source,
        target=target,
        request=read_file(request_file) if request_file else None,
        profile=read_profile(profile, source),
        created=int(time.time()),
        model=model,
    )
    if strict:
        _refuse(result.losses)
    _print_json(result.body)
    _tell(result.losses)


@translate.command()
@_FROM
@_TO
@_REQUEST
@_PROFILE
@_STRICT
@_MODEL
@_FILE
def stream(
    source: str,
    target: str,
    request_file: str | None,
    profile: str | None,
    strict: bool,
    model: str,
    file: str,
) -> None:
    """An upstream's streamed reply (--from) as the client's dialect (--to) says it, as it flows."""
    translator = StreamTranslator(
        source=source,
        target=target,
        request=read_file(request_file) if request_file else None,
        profile=read_profile(profile, source),
        created=int(time.time()),
        model=model,
    )
    out = sys.stdout.buffer
    for piece in read_pieces(file):
        out.write(translator.feed(piece))
        out.flush()
    out.write(translator.close())
    out.flush()
    _tell(translator.losses)
    if strict:
        _refuse(translator.losses)
    if translator.failure is not None:
        click.echo(f"the reply failed: {translator.failure.message}", err=True)
        raise SystemExit(1)


def _print_json(body: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(body), indent=2))


def _tell(losses: tuple[Loss, ...]) -> None:
    for loss in losses:
        click.echo(f"loss: {loss}", err=True)


def _refuse(losses: tuple[Loss, ...]) -> None:
    Losses(losses).refuse_if_any()
