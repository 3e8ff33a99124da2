"""Reads and writes the parts of the tools that Gemini runs: code, searches, and their results.

The extras keep such a part unchanged for Gemini clients; the block has what other dialects can use.
"""

from collections.abc import Callable

import msgspec

from dragoman.dialects.gemini.names import to_camel, to_snake
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Extras, HostedCall, HostedResult, ReplyBlock
from dragoman.hub.loss import Losses
from dragoman.wire.fields import Fields, encode

#: Common names of the tools that Gemini runs, by their names in declarations and in calls.
COMMON_NAMES: dict[str, str] = {
    "googleSearch": "web_search",
    "googleSearchRetrieval": "web_search",
    "enterpriseWebSearch": "web_search",
    "urlContext": "web_fetch",
    "codeExecution": "code_execution",
    "GOOGLE_SEARCH_WEB": "web_search",
    "GOOGLE_SEARCH_IMAGE": "image_search",
    "URL_CONTEXT": "web_fetch",
}

OUTCOME_OK = "OUTCOME_OK"

#: A private extra, for our own writer: the unchanged part of a tool that Gemini runs.
WHOLE_PART = "@part"


def find_common_name(name: str) -> str:
    """The common name of a declared tool."""
    return COMMON_NAMES.get(name) or to_snake(name)


def find_called_name(kind: str) -> str:
    """The common name of a tool whose call has this `toolType`."""
    return COMMON_NAMES.get(kind) or kind.lower()


class HostedReader:
    """Reads the parts of Gemini's tools. `make_id` makes the id of a call that has none."""

    def __init__(self, make_id: Callable[[], str]) -> None:
        self._make_id = make_id
        self._last_call = ""

    def read_code(self, part: Fields) -> HostedCall:
        whole, code = _copy_part(part, "executableCode")
        arguments = {"language": code.text("language"), "code": code.text("code")}
        return self._build_call(part, whole, code, "code_execution", arguments)

    def read_code_result(self, part: Fields) -> HostedResult:
        whole, result = _copy_part(part, "codeExecutionResult")
        return HostedResult(
            call_id=result.text_or("id", self._last_call),
            tool="code_execution",
            text=result.text_or("output", ""),
            is_error=result.text("outcome") != OUTCOME_OK,
            at=part.path,
            extras=whole,
        )

    def read_tool_call(self, part: Fields) -> HostedCall:
        whole, call = _copy_part(part, "toolCall")
        tool = find_called_name(call.text("toolType"))
        return self._build_call(part, whole, call, tool, call.raw("args", {}))

    def read_tool_response(self, part: Fields) -> HostedResult:
        whole, response = _copy_part(part, "toolResponse")
        return HostedResult(
            call_id=response.text_or("id", self._last_call),
            tool=find_called_name(response.text("toolType")),
            text=encode(response.raw("response", {})).decode(),
            at=part.path,
            extras=whole,
        )

    def _build_call(
        self, part: Fields, whole: Extras, call: Fields, tool: str, arguments: object
    ) -> HostedCall:
        self._last_call = call.maybe_text("id") or self._make_id()
        return HostedCall(
            id=self._last_call, tool=tool, arguments=encode(arguments).decode(), at=part.path, extras=whole
        )


HOSTED_READERS: dict[str, Callable[[HostedReader, Fields], ReplyBlock]] = {
    "executableCode": HostedReader.read_code,
    "codeExecutionResult": HostedReader.read_code_result,
    "toolCall": HostedReader.read_tool_call,
    "toolResponse": HostedReader.read_tool_response,
}


def _copy_part(part: Fields, name: str) -> tuple[Extras, Fields]:
    """The unchanged part for the extras, and a copy of its inner object to read."""
    values = part.rest()
    inner = values[name]
    return {WHOLE_PART: values}, part.child(dict(to_camel(inner)) if isinstance(inner, dict) else inner, name)


def write_hosted(block: HostedCall | HostedResult, *, native: bool, losses: Losses) -> Json | None:
    """The part of a hosted call or result, or None with the loss recorded."""
    whole = block.extras.get(WHOLE_PART)
    if native and isinstance(whole, dict):
        return whole
    part = _write_code(block) if isinstance(block, HostedCall) else _write_code_result(block)
    if part is None:
        losses.add(block.at, f"a {block.tool} run by another vendor has no equivalent in Gemini")
    return part


def _write_code(call: HostedCall) -> Json | None:
    """The part of a code execution. Gemini's replies have no part for other hosted calls."""
    if call.tool != "code_execution":
        return None
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeDecodeError):
        arguments = None
    code = arguments.get("code") if isinstance(arguments, dict) else None
    return {
        "executableCode": {"language": "PYTHON", "code": code if isinstance(code, str) else call.arguments}
    }


def _write_code_result(result: HostedResult) -> Json | None:
    if result.tool != "code_execution":
        return None
    outcome = "OUTCOME_FAILED" if result.is_error else "OUTCOME_OK"
    return {"codeExecutionResult": {"outcome": outcome, "output": result.text}}
