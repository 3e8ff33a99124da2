"""`dragoman docs`: the pages of the documentation, in the terminal and without a network."""

from difflib import get_close_matches
from pathlib import Path

import click

import dragoman
from dragoman.hub.errors import ConfigError

#: Lines that a search shows of one page.
MAX_LINES = 5


@click.command()
@click.argument("topic", required=False)
@click.option("--search", metavar="WORDS", help="List the lines that contain these words, by topic.")
def docs(topic: str | None, search: str | None) -> None:
    """Show a page of the documentation, or list the topics.

    \b
    dragoman docs
    dragoman docs keys
    dragoman docs --search "context window"
    """
    pages = _find_pages()
    if search is not None:
        _print_matches(pages, search)
    elif topic is None:
        _print_topics(pages)
    else:
        click.echo_via_pager(_read(pages, topic))


def _find_pages() -> dict[str, Path]:
    """The pages by topic: guides first, then the others. A wheel contains them; a checkout has `docs/`."""
    package = Path(dragoman.__file__).parent
    folder = next((each for each in (package / "docs", package.parents[1] / "docs") if each.is_dir()), None)
    if folder is None:
        raise ConfigError("this installation has no documentation", hint="install dragoman from its wheel")
    guides, others = sorted(folder.glob("guides/*.md")), sorted(folder.glob("*.md"))
    topics = {f"guide-{page.stem}": page for page in guides}
    return topics | {page.stem.lower(): page for page in others if page.stem != "index"}


def _read(pages: dict[str, Path], topic: str) -> str:
    page = pages.get(topic.lower().removesuffix(".md"))
    if page is None:
        near = get_close_matches(topic.lower(), pages, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`dragoman docs` lists the topics"
        raise ConfigError(f"there is no topic {topic!r}", hint=hint)
    return page.read_text("utf-8")


def _print_topics(pages: dict[str, Path]) -> None:
    width = max(map(len, pages))
    for topic, page in pages.items():
        title = page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        click.echo(f"{click.style(topic.ljust(width), bold=True)}  {title}")
    click.echo("\ndragoman docs TOPIC shows one of them.", err=True)


def _print_matches(pages: dict[str, Path], words: str) -> None:
    wanted = words.lower().split()
    has_found = False
    for topic, page in pages.items():
        lines = [line.strip() for line in page.read_text("utf-8").splitlines()]
        found = [line for line in lines if wanted and all(word in line.lower() for word in wanted)]
        for line in found[:MAX_LINES]:
            has_found = True
            click.echo(f"{click.style(topic, bold=True)}: {line}")
    if not has_found:
        raise ConfigError(f"no page contains {words!r}", hint="`dragoman docs` lists the topics")
