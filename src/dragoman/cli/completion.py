"""Names that a shell completes: models of the configuration, and client keys."""

import os
from contextlib import suppress

import click

from dragoman.accounts.keys import list_keys
from dragoman.cli.files import has_stored_keys, use_state
from dragoman.config.find import find_config
from dragoman.hub.errors import DragomanError
from dragoman.routing.choose import list_model_names


def complete_models(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    """The model names that begin with `start`; none if the configuration has a mistake."""
    with suppress(DragomanError):
        config = find_config(context.params.get("path"), os.environ, secrets=False)
        return [name for name in list_model_names(config) if name.startswith(start)]
    return []


def complete_keys(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    """The names of the client keys that begin with `start`; none if the configuration has a mistake."""
    with suppress(DragomanError):
        path = context.params.get("path")
        if has_stored_keys(find_config(path, os.environ, secrets=False)):
            names = [key.caller.name for key in use_state(path, list_keys)]
            return [name for name in names if name.startswith(start)]
    return []
