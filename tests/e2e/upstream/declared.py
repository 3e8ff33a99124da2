"""The tools that a request declares, in any dialect, and how a script's wishes are put in their words."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tests.e2e.upstream.script import Call, Grip, Use

Json = dict[str, Any]


class Declared(msgspec.Struct, frozen=True):
    name: str
    is_custom: bool = False
    namespace: str = ""
    schema: Json = {}
    about: str = ""


class NoSuchTool(Exception):
    """The script wants a tool that the request does not declare."""


def declared(dialect: str, body: Json) -> list[Declared]:
    return list(_READERS[dialect](body))


def call_for(use: Use, grips: Mapping[str, Grip], tools: list[Declared]) -> Call:
    """The call that fulfils a use; a gateway may have prefixed the tool's name, or wrapped free text."""
    grip = grips[use.intent]
    if grip.is_undeclared:
        return Call(name=grip.tool, arguments={grip.argument: grip.text(use.value)})
    tool = _find(grip, tools)
    text = grip.text(use.value)
    if tool.is_custom:
        return Call(name=tool.name, namespace=tool.namespace, arguments={}, input=text)
    argument = grip.argument or _only_parameter(tool)
    return Call(name=tool.name, namespace=tool.namespace, arguments={argument: text, **grip.more})


def _find(grip: Grip, tools: list[Declared]) -> Declared:
    ends_so = re.compile(rf"(?:^|__|[._:-]){re.escape(grip.tool)}$")
    exact = [tool for tool in tools if tool.name == grip.tool]
    close = [tool for tool in tools if ends_so.search(tool.name)]
    described = [tool for tool in tools if grip.about and tool.about == grip.about]
    for found in (*exact, *close, *described):
        return found
    raise NoSuchTool(f"no tool {grip.tool!r} is declared, only {sorted(tool.name for tool in tools)}")


def _only_parameter(tool: Declared) -> str:
    names = list(tool.schema.get("properties", {}))
    if len(names) != 1:
        raise NoSuchTool(f"{tool.name!r} wraps free text, but has the parameters {names}")
    return str(names[0])


def _anthropic(body: Json) -> Iterator[Declared]:
    for tool in body.get("tools", []):
        if "input_schema" in tool:
            yield Declared(tool["name"], schema=tool["input_schema"], about=tool.get("description", ""))


def _chat(body: Json) -> Iterator[Declared]:
    for tool in body.get("tools", []):
        inner = tool[tool["type"]]
        is_custom, about = tool["type"] == "custom", inner.get("description", "")
        yield Declared(inner["name"], is_custom, "", inner.get("parameters") or {}, about)


def _responses(body: Json) -> Iterator[Declared]:
    tools = list(body.get("tools") or [])
    for item in body["input"] if isinstance(body.get("input"), list) else []:
        if item.get("type") in ("additional_tools", "tool_search_output"):
            tools += item["tools"]
    yield from _response_tools(tools, "")


def _response_tools(tools: list[Json], namespace: str) -> Iterator[Declared]:
    for tool in tools:
        if tool["type"] == "namespace":
            yield from _response_tools(tool["tools"], tool["name"])
        elif tool["type"] in ("function", "custom"):
            schema = tool.get("parameters") or {}
            is_custom, about = tool["type"] == "custom", tool.get("description", "")
            yield Declared(tool["name"], is_custom, namespace, schema, about)


def _gemini(body: Json) -> Iterator[Declared]:
    for tool in body.get("tools", []):
        for function in tool.get("functionDeclarations") or tool.get("function_declarations") or []:
            spellings = ("parametersJsonSchema", "parameters_json_schema", "parameters")
            schema: Json = next((function[name] for name in spellings if name in function), {})
            yield Declared(function["name"], schema=schema, about=function.get("description", ""))


_READERS = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
}
