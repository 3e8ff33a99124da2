"""The tables of the file for agents that are more than API clients: sign-in, and settings for Claude Code."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import msgspec

from dragoman.config.value_kinds import integer, read_keys
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


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """`[session_limits]`, and `[routes.session_limits]`: limits of one session of an agent. 0: no limit."""

    cost: Annotated[float, Doc("Dollars that one session may cost; 0: no limit, here and below.")] = 0.0
    tokens: Annotated[int, integer(0), Doc("Tokens that one session may use, input and output.")] = 0
    sub_agent_cost: Annotated[float, Doc("Dollars that one sub-agent may cost.")] = 0.0
    sub_agent_tokens: Annotated[int, integer(0), Doc("Tokens that one sub-agent may use.")] = 0
    repeated_calls: Annotated[
        int, integer(0), Doc("The model may call a tool so often in a row with the same arguments.")
    ] = 0


def read_session_limits(table: "TomlTable") -> SessionLimits:
    table.check(read_keys(SessionLimits))
    limits = table.build(SessionLimits)
    if limits.repeated_calls == 1:
        raise table.error("expected 0 or at least 2: every call is one call", "repeated_calls")
    return limits


def read_session_changes(owner: "TomlTable") -> dict[str, object]:
    """The limits that a route changes, by name."""
    table = owner.table("session_limits")
    limits = read_session_limits(table)
    return {name: getattr(limits, name) for name in table.values}


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
