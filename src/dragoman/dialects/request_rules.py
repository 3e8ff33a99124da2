"""Rules by which a vendor refuses a request that the readers accept.

The gateway applies them to requests that it translates into another dialect: without the vendor's own error
the client would get an answer to something that it did not mean to ask. A forwarded request is refused by its
server, which may be more generous than the vendor.

Each dialect has its table in `request_rules.py`, `Dialect.request_rules`.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.request import Request, list_declared_tools


class RequestRule(NamedTuple):
    """A rule of one API. `find` returns the path of the first field that breaks it, or an empty text.

    `for_messages`: the rule is about the conversation. The others are about settings and declared tools.
    """

    find: Callable[[Request], str]
    message: str
    hint: str = ""
    for_messages: bool = False


def check_rules(request: Request, rules: Iterable[RequestRule], *, only_messages: bool = False) -> None:
    """Raise `ClientProtocolError` for the first rule that the request breaks.

    `only_messages`: its settings and tools are those of a request that broke no rule.
    """
    for rule in rules:
        path = rule.find(request) if rule.for_messages or not only_messages else ""
        if path:
            raise ClientProtocolError(rule.message, path=path, hint=rule.hint)


def find_undeclared_choice(request: Request) -> str:
    """The path of a tool choice that names a tool which the request does not declare."""
    choice = request.tool_choice
    if choice is None:
        return ""
    names = {"named": (choice.name,), "allowed": choice.allowed}.get(choice.mode, ())
    declared = {tool.name for tool in list_declared_tools(request)} if names else frozenset[str]()
    return "" if declared.issuperset(names) else request.path_of("tool_choice")


UNDECLARED_CHOICE = "names a tool that the request does not declare"
