"""Guesses at what somebody meant to write."""

from collections.abc import Iterable
from difflib import get_close_matches


def near(given: str, known: Iterable[str]) -> str:
    """A question that guesses the spelling, or nothing."""
    found = get_close_matches(given, list(known), n=1)
    return f'did you mean "{found[0]}"?' if found else ""
