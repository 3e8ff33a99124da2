"""`dragoman setup`: finds model servers and keys, tests a model, writes the file, starts an agent."""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from dragoman.cli.agents import AGENTS
from dragoman.cli.connection import program_name
from dragoman.cli.doctor import print_findings, show_progress
from dragoman.cli.files import write_private
from dragoman.cli.formats import format_json, format_table, json_option
from dragoman.cli.new_config import build_config, find_program, is_stand_in
from dragoman.cli.offers import Offer, describe_model, find_offers, list_models, match_model
from dragoman.cli.run import run
from dragoman.config.find import EMBEDDED, FILE_NAME
from dragoman.config.load import load
from dragoman.config.provider import TargetName
from dragoman.doctor.examine import examine
from dragoman.doctor.findings import Examination
from dragoman.doctor.probes import PROBES
from dragoman.doctor.server_kinds import ServerModel
from dragoman.doctor.servers import (
    AGENT_CONTEXT,
    create_ollama_model,
    find_kind,
    find_server,
)
from dragoman.hub.errors import ConfigError
from dragoman.providers.presets import load_presets

#: The probes of the first test, and the tokens that it may use.
FIRST_PROBES = ("answers", "tools")
FIRST_BUDGET = 12_000
#: Lines of one list on the terminal.
MAX_SHOWN = 30
#: The kind of server whose models can be created with another window.
_CREATES_MODELS = "ollama"
_NOTHING_FOUND = (
    "start Ollama, LM Studio, llama.cpp or vLLM, or set a key such as OPENAI_API_KEY; "
    "--provider embedded needs neither"
)


class SetupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    provider: str | None
    url: str
    model: str | None
    context: int | None
    no_test: bool
    yes: bool
    agent: str | None
    path: str
    force: bool
    arguments: tuple[str, ...]

    @property
    def asks(self) -> bool:
        """Whether questions can be asked."""
        return sys.stdin.isatty() and not self.yes


class TestedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen model with its facts. `works`: no test of it has failed."""

    name: str
    facts: dict[str, object] = {}
    works: bool = True


@click.command()
@click.option("--provider", metavar="NAME", help="Provider of the model: the name of a preset.")
@click.option("--url", default="", metavar="URL", help="Address of a model server.")
@click.option("--model", metavar="NAME", help="The provider's name of the model.")
@click.option(
    "--context",
    type=click.IntRange(1024),
    metavar="TOKENS",
    help="Context window of the model. For Ollama, setup creates a model with this window.",
)
@click.option("--no-test", is_flag=True, help="Send no test requests to the model.")
@click.option(
    "--yes", is_flag=True, help="Ask nothing: take the first provider and its first model with tools."
)
@click.option("--agent", type=click.Choice(list(AGENTS)), help="Start this agent at the end.")
@click.option("--list", "is_list", is_flag=True, help="Only list the servers and keys that were found.")
@json_option
@click.option("--file", "path", default=FILE_NAME, show_default=True, metavar="FILE", help="File to write.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def setup(invocation: click.Context, /, is_list: bool, as_json: bool, **options: object) -> None:
    """Find a model, test it, write the configuration, and start an agent.

    \b
    dragoman setup
    dragoman setup --yes --agent claude
    dragoman setup --provider ollama --model qwen3-coder --context 32768
    dragoman setup --url http://192.168.1.5:8000 --model my-model

    It looks for Ollama, LM Studio, llama.cpp and vLLM on this machine and for keys of vendors in the
    environment, and asks which model to use. The options answer the questions. ARGUMENTS after `--` go to the
    agent. The file contains no keys, only the names of the environment variables that hold them.
    """
    chosen = msgspec.convert(options, SetupOptions)
    if chosen.arguments and not chosen.agent:
        raise click.UsageError(
            f"Got unexpected argument {chosen.arguments[0]!r}; arguments of an agent need --agent."
        )
    if is_list or as_json:
        _print_offers(find_offers(chosen.provider, chosen.url), as_json=as_json)
        return
    _check_file(chosen)
    offer = _choose_offer(chosen)
    model = _prepare_model(chosen, offer, _choose_model(chosen, offer))
    text = build_config(offer.preset, model.name, base_url=offer.base_url, facts=model.facts)
    load(text, chosen.path, {**os.environ, load_presets()[offer.preset].key: "to be set"})
    write_private(chosen.path, text, replace=True)
    click.echo(f"wrote {chosen.path}")
    if not model.works:
        click.echo(f"{offer.preset}/{model.name} does not work yet: see above", err=True)
        raise SystemExit(1)
    _finish(invocation, chosen, offer)


def _print_offers(offers: Sequence[Offer], *, as_json: bool) -> None:
    if as_json:
        click.echo(format_json(offers))
        return
    for offer in offers:
        click.secho(f"{offer.title}  {offer.detail}", bold=True)
        models = offer.server.models if offer.server else ()
        for line in format_table([(f"  {model.name}", describe_model(model)) for model in models]):
            click.echo(line)
    if not offers:
        click.echo(
            f"no model server answers on this machine, and no key of a vendor is set: {_NOTHING_FOUND}"
        )


def _check_file(options: SetupOptions) -> None:
    path = options.path
    if not Path(path).exists() or options.force:
        return
    if not options.asks or not click.confirm(f"{path} exists. Overwrite it?", err=True):
        raise ConfigError(f"{path} exists already", hint="--force overwrites it, --file writes another file")


def _choose_offer(options: SetupOptions) -> Offer:
    offers = find_offers(options.provider, options.url)
    if options.provider or options.url:
        return offers[0]
    usable = [offer for offer in offers if not offer.server or offer.server.models]
    if options.yes and usable:
        return usable[0]
    if not options.asks:
        found = ", ".join(offer.preset for offer in offers)
        raise ConfigError("--provider is missing", hint=f"found: {found}" if found else _NOTHING_FOUND)
    others = [
        ("another server", "at an address"),
        ("another provider", "by its name"),
        (EMBEDDED, "no model: to try an agent"),
    ]
    rows = [*((offer.title, offer.detail) for offer in offers), *others]
    number = _ask_row("Provider", rows)
    if number < len(offers):
        return offers[number]
    if number == len(offers):
        return find_offers(None, click.prompt("Address", err=True))[0]
    known = click.Choice(sorted(load_presets()))
    is_last = number == len(rows) - 1
    name = EMBEDDED if is_last else click.prompt("Provider", type=known, err=True)
    return find_offers(name, "")[0]


def _ask_row(title: str, rows: Sequence[tuple[str, str]]) -> int:
    """Print numbered rows and return the index of the chosen one."""
    for number, line in enumerate(format_table(rows), 1):
        click.echo(f"  {number:>2}  {line}", err=True)
    chosen: int = click.prompt(title, type=click.IntRange(1, len(rows)), default=1, err=True)
    return chosen - 1


def _choose_model(options: SetupOptions, offer: Offer) -> str:
    if is_stand_in(offer.preset):
        return offer.preset
    models = list_models(offer)
    if options.model is not None:
        # A vendor may have models that its list does not have.
        return match_model(offer, options.model, models if offer.server else ())
    if options.yes and models:
        return next((model.name for model in models if model.has_tools is not False), models[0].name)
    if not options.asks:
        names = ", ".join(model.name for model in models[:MAX_SHOWN])
        raise ConfigError("--model is missing", hint=f"there are: {names}" if names else "--model NAME")
    if not models:
        return str(click.prompt("Model (the provider's name of it)", err=True))
    while len(models) > MAX_SHOWN:
        part = click.prompt(f"{len(models)} models. A part of the name", err=True).lower()
        models = [model for model in models if part in model.name.lower()] or models
    return models[_ask_row("Model", [(model.name, describe_model(model)) for model in models])].name


def _prepare_model(options: SetupOptions, offer: Offer, name: str) -> TestedModel:
    """Test the model, and find or set its context window."""
    if options.context and offer.preset == _CREATES_MODELS and offer.server:
        name = _create_model(offer, name, options.context)
    facts: dict[str, object] = {"context_tokens": options.context} if options.context else {}
    works = True
    if not options.no_test and offer.is_testable:
        examination = _test(offer, name, facts)
        facts |= examination.facts
        works = all(finding.state != "fails" for finding in examination.findings)
    # Some servers load a model at its first request, and report the window of a loaded model only.
    server = find_server(offer.server.base_url) if offer.server else None
    found = server.find_model(name) if server else None
    if found is None:
        return TestedModel(name=name, facts=facts, works=works)
    facts = {**found.list_facts(), **facts}
    if 0 < found.context < AGENT_CONTEXT and not options.context:
        larger = _offer_larger_window(options, offer, found)
        if larger:
            return TestedModel(name=larger, facts={**facts, "context_tokens": AGENT_CONTEXT}, works=works)
    return TestedModel(name=name, facts=facts, works=works)


def _test(offer: Offer, name: str, facts: dict[str, object]) -> Examination:
    """Ask the model for an answer and a tool call, through the gateway."""
    config = load(build_config(offer.preset, name, base_url=offer.base_url, facts=facts), "", os.environ)
    probes = [probe for probe in PROBES if probe.name in FIRST_PROBES]
    with show_progress(quiet=False) as progress:
        target = TargetName(offer.preset, name)
        examination = asyncio.run(
            examine(config, target, budget=FIRST_BUDGET, probes=probes, progress=progress)
        )
    print_findings(f"test of {target}", examination.findings, err=True)
    return examination


def _offer_larger_window(options: SetupOptions, offer: Offer, model: ServerModel) -> str:
    """The name of a new model with a larger window, if the user wants it; else print what to do."""
    click.echo(
        f"{model.name} has {model.context:,} tokens of context. The instructions of agents alone have up to "
        "25,000, so long conversations fail.",
        err=True,
    )
    is_possible = offer.preset == _CREATES_MODELS and model.largest_context >= AGENT_CONTEXT
    question = f"Create a model with {AGENT_CONTEXT:,} tokens of context? It shares the files of this one."
    if is_possible and options.asks and click.confirm(question, default=True, err=True):
        return _create_model(offer, model.name, AGENT_CONTEXT)
    kind = find_kind(offer.preset)
    if kind:
        click.echo(f"to enlarge it: {kind.advice.format(tokens=AGENT_CONTEXT)}", err=True)
    return ""


def _create_model(offer: Offer, name: str, tokens: int) -> str:
    created = create_ollama_model(offer.server.base_url, name, tokens) if offer.server else ""
    if not created:
        raise ConfigError(f"Ollama does not create a model from {name}", hint=f"try: ollama show {name}")
    click.echo(f"created {created} with {tokens:,} tokens of context", err=True)
    return created


def _finish(invocation: click.Context, options: SetupOptions, offer: Offer) -> None:
    """Start the agent, or print the next steps."""
    variable = load_presets()[offer.preset].key
    if variable and not os.environ.get(variable):
        click.echo(f"next: export {variable}=…", err=True)
    program = find_program(offer.preset)
    installed = [name for name, agent in AGENTS.items() if shutil.which(agent.program)]
    agent = options.agent
    # An agent as a provider serves applications; `run claude` would put Claude Code in front of itself.
    is_agent = program is not None and program.is_agent
    if not agent and options.asks and installed and not is_agent:
        choices = click.Choice([*installed, "none"])
        answer = click.prompt("Start an agent", type=choices, default=installed[0], err=True)
        agent = answer if answer != "none" else None
    if agent:
        path = None if options.path == FILE_NAME else options.path
        invocation.invoke(
            run, path=path, model="", url="", key="", log_path=None, agent=agent, arguments=options.arguments
        )
        return
    place = "" if options.path == FILE_NAME else f" --config {options.path}"
    command = f"serve{place}" if is_agent else f"run{place} {installed[0] if installed else 'claude'}"
    click.echo(f"next: {program_name()} {command}", err=True)
