"""Reasoning between tags: how each family marks it, and what opens it.

A tag opens reasoning only before anything else was said, unless the family says that it comes again. Blanks
next to the tags are layout.
"""

from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import (
    Begins,
    Context,
    Layout,
    Opener,
    Place,
    Reader,
    Reading,
    Reasoning,
    Section,
)

THINK = Reasoning(opens="<think>", closes="</think>")
IMPLIED_THINK = Reasoning(opens="<think>", closes="</think>", implied=True)


def section_of(reasoning: Reasoning) -> Section:
    return Section(closers=(reasoning.closes,), opens=reasoning.opens, label=reasoning.label)


def section_reader(section: Section) -> Reader:
    def read(cursor: Cursor, context: Context) -> Reading:
        yield from ()
        return Begins(section)

    return read


def layout_reader(*literals: str) -> Reader:
    def read(cursor: Cursor, context: Context) -> Reading:
        yield from ()
        return Layout(literals)

    return read


def reasoning_openers(reasoning: Reasoning) -> tuple[Opener, ...]:
    """What to look for in a family that marks its reasoning so."""
    anywhere = Place.ANYWHERE if reasoning.again else None
    tag = Opener(
        marker=reasoning.opens,
        read=section_reader(section_of(reasoning)),
        safety="A",
        place=anywhere or Place.FIRST,
    )
    wraps = tuple(
        Opener(marker=opens, read=layout_reader(closes), safety="A", place=anywhere or Place.OPENING)
        for opens, closes in reasoning.wraps
    )
    stray = Opener(marker=reasoning.closes, read=layout_reader(), safety="A", place=Place.FIRST)
    return (tag, *wraps, stray) if reasoning.stray else (tag, *wraps)
