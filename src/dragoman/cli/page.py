"""`dragoman page`: the address of the gateway's web page, and the token that it needs."""

import click

from dragoman.cli.admin import AdminClient, admin_options


@click.command()
@admin_options
def page(path: str | None, url: str) -> None:
    """Print the address of the web page of the running gateway, and the admin token that it needs.

    The page shows sessions, turns, costs, models, routes and keys. Enter the token there: it is not part of
    the address. Keep it secret, because it gives access to the admin API.
    """
    client = AdminClient(path, url)
    client.call("GET", "/admin/status")
    click.echo(f"{client.url}/")
    click.echo(f"token: {client.token.reveal()}")
