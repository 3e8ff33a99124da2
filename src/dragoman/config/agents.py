"""The tables of the file for agents that are more than API clients: sign-in, and settings for Claude Code."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec

from dragoman.config.key_kinds import read_keys
from dragoman.providers.facts import Doc

if TYPE_CHECKING:
    from dragoman.config.document import TomlTable


class SignInSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[sign_in]`: the sign-in of agents by device code."""

    enabled: Annotated[bool, Doc("Offer the sign-in.")] = True
    url: Annotated[
        str,
        Doc("The gateway's public https address, if it is not used on this machine alone."),
    ] = ""
    days: Annotated[float, Doc("Days until an agent that does not renew its sign-in must sign in again.")] = (
        90.0
    )


def read_sign_in(table: "TomlTable") -> SignInSettings:
    table.check(read_keys(SignInSettings))
    url = table.text("url").rstrip("/")
    parts = urlsplit(url)
    if url and (parts.scheme != "https" or not parts.hostname or parts.path or parts.query):
        hint = 'for example "https://gateway.example.com"'
        raise table.error("expected an https address without a path", "url", hint=hint)
    return table.build(SignInSettings, url=url)


def read_managed_settings(root: "TomlTable") -> dict[str, object] | None:
    """The settings for Claude Code; None without the table. An empty table is an empty policy."""
    if "managed_settings" not in root.values:
        return None
    return root.table("managed_settings").values
