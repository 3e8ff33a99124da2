"""Prints the warnings about a configuration file."""

import click

from dragoman.config.model import Config


def print_warnings(config: Config) -> None:
    """Print each warning and its hint on standard error."""
    for warning in config.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning.message}", err=True)
        if warning.hint:
            click.echo(f"hint: {warning.hint}", err=True)
