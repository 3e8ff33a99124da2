"""Tools that a client expects its vendor to run, and that the gateway runs because the target does not."""

import msgspec

from dragoman.hub.blocks import Tool
from dragoman.hub.request import Request
from dragoman.providers.profile import TargetFacts


def find_hosted(
    request: Request, target: TargetFacts, common_name: str, *, always: bool = False
) -> Tool | None:
    """The hosted tool with this common name that the client declares and the target does not run.

    `always`: also if the target runs it.
    """
    hosted = next(
        (tool for tool in request.tools if tool.kind == "hosted" and tool.common_name == common_name), None
    )
    if hosted is None or always:
        return hosted
    has_functions = any(tool.kind != "hosted" for tool in request.tools)
    is_known = target.hosted_tools is None or common_name in target.hosted_tools
    runs_it = is_known and (target.hosted_beside_functions or not has_functions)
    return None if runs_it else hosted


def remove_hosted(request: Request, common_name: str) -> Request:
    """The request without the hosted tools with this common name."""
    kept = tuple(tool for tool in request.tools if tool.kind != "hosted" or tool.common_name != common_name)
    return msgspec.structs.replace(request, tools=kept)
