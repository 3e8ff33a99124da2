"""Compiles prompt rules and applies them to a request."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

from dragoman.config.prompts import PromptRule
from dragoman.governance.interventions import Intervention, Report
from dragoman.hub.blocks import AnyBlock, Text, Tool
from dragoman.hub.request import Message, Request, Role
from dragoman.routing.rules import ConditionCheck, build_checks
from dragoman.routing.traits import RequestTraits

_ROLES: dict[str, tuple[Role, ...]] = {
    "system": ("system", "developer"),
    "user": ("user",),
    "assistant": ("assistant",),
}


class CompiledPrompt(NamedTuple):
    """A rule with its checks and its patterns."""

    rule: PromptRule
    checks: tuple[ConditionCheck, ...]
    find: Any
    contains: Any


def compile_prompts(rules: Sequence[PromptRule]) -> tuple[CompiledPrompt, ...]:
    return tuple(
        CompiledPrompt(rule, build_checks(rule.when), _compile(rule.find), _compile(rule.contains))
        for rule in rules
    )


def apply_prompts(
    request: Request, prompts: Sequence[CompiledPrompt], traits: RequestTraits, report: Report
) -> Request:
    """The request after all rules whose conditions hold; the same object if nothing changes."""
    for prompt in prompts:
        if not _holds(prompt, request, traits):
            continue
        changed = (
            _apply_to_tools(request, prompt)
            if prompt.rule.place == "tools"
            else _apply_to_messages(request, prompt)
        )
        if changed is not request:
            before, after = _measure(request), _measure(changed)
            report(Intervention(kind="prompt", detail=(prompt.rule.name,), before=before, after=after))
        request = changed
        if prompt.rule.stop:
            break
    return request


def _holds(prompt: CompiledPrompt, request: Request, traits: RequestTraits) -> bool:
    if not all(check.holds(traits) for check in prompt.checks):
        return False
    if prompt.contains is None:
        return True
    systems = (message for message in request.messages if message.role in _ROLES["system"])
    return any(
        isinstance(block, Text) and prompt.contains.search(block.text) is not None
        for message in systems
        for block in message.blocks
    )


def _apply_to_tools(request: Request, prompt: CompiledPrompt) -> Request:
    """The request with changed descriptions of the tools whose names match.

    It is without those tools if the rule removes whole tools.
    """
    rule = prompt.rule
    tools: list[Tool] = []
    for tool in request.tools:
        if not fnmatchcase(tool.name, rule.tool):
            tools.append(tool)
        elif rule.operation != "remove" or rule.find:
            text = _change_text(tool.description or "", prompt)
            is_same = text == (tool.description or "")
            tools.append(tool if is_same else msgspec.structs.replace(tool, description=text))
    is_unchanged = len(tools) == len(request.tools) and all(map(_is, tools, request.tools))
    return request if is_unchanged else msgspec.structs.replace(request, tools=tuple(tools))


def _apply_to_messages(request: Request, prompt: CompiledPrompt) -> Request:
    roles = _ROLES[prompt.rule.place]
    is_whole = prompt.rule.place == "system" and prompt.rule.operation in _WHOLE
    if is_whole:
        return _change_system(request, prompt)
    messages = tuple(
        _change_message(message, prompt) if message.role in roles else message for message in request.messages
    )
    return (
        request
        if all(map(_is, messages, request.messages))
        else msgspec.structs.replace(request, messages=messages)
    )


def _change_message(message: Message, prompt: CompiledPrompt) -> Message:
    blocks: list[AnyBlock] = []
    for block in message.blocks:
        text = _change_text(block.text, prompt) if isinstance(block, Text) else ""
        if not isinstance(block, Text) or text == block.text:
            blocks.append(block)
        elif text or len(message.blocks) == 1:
            blocks.append(msgspec.structs.replace(block, text=text, citations=(), seal=None))
    is_unchanged = len(blocks) == len(message.blocks) and all(map(_is, blocks, message.blocks))
    return message if is_unchanged else msgspec.structs.replace(message, blocks=tuple(blocks))


def _change_system(request: Request, prompt: CompiledPrompt) -> Request:
    """Apply a rule to all system texts together.

    `append` changes the last, `prepend` the first; any other operation replaces or removes them all. Without
    a system text, one is added.
    """
    rule, roles = prompt.rule, _ROLES["system"]
    places = [
        (number, index)
        for number, message in enumerate(request.messages)
        if message.role in roles
        for index, block in enumerate(message.blocks)
        if isinstance(block, Text)
    ]
    if not places:
        if rule.operation == "remove" or not rule.text:
            return request
        added = Message(role="system", blocks=(Text(text=rule.text),))
        return msgspec.structs.replace(request, messages=(added, *request.messages))
    chosen = places[-1] if rule.operation == "append" else places[0]
    messages: list[Message] = []
    for number, message in enumerate(request.messages):
        blocks: list[AnyBlock] = []
        for index, block in enumerate(message.blocks):
            if not isinstance(block, Text) or (number, index) not in places:
                blocks.append(block)
            elif (number, index) == chosen and rule.operation != "remove":
                blocks.append(msgspec.structs.replace(block, text=_change_text(block.text, prompt)))
            elif rule.operation in ("append", "prepend"):
                blocks.append(block)
        if blocks or not message.blocks:
            messages.append(msgspec.structs.replace(message, blocks=tuple(blocks)))
    return (
        request
        if tuple(messages) == request.messages
        else msgspec.structs.replace(request, messages=tuple(messages))
    )


def _change_text(text: str, prompt: CompiledPrompt) -> str:
    return _OPERATIONS[prompt.rule.operation](text, prompt)


def _insert(text: str, prompt: CompiledPrompt, *, is_before: bool) -> str:
    parts: list[str] = []
    position = 0
    for found in prompt.find.finditer(text):
        place = found.start() if is_before else found.end()
        parts += (text[position:place], prompt.rule.text)
        position = place
    return "".join((*parts, text[position:]))


#: Operations on the system text as a whole.
_WHOLE = frozenset({"set", "append", "prepend"})

_OPERATIONS: dict[str, Callable[[str, CompiledPrompt], str]] = {
    "replace": lambda text, prompt: prompt.find.sub(prompt.rule.text, text),
    "remove": lambda text, prompt: prompt.find.sub("", text) if prompt.find is not None else "",
    "insert_before": lambda text, prompt: _insert(text, prompt, is_before=True),
    "insert_after": lambda text, prompt: _insert(text, prompt, is_before=False),
    "prepend": lambda text, prompt: prompt.rule.text + text,
    "append": lambda text, prompt: text + prompt.rule.text,
    "set": lambda text, prompt: prompt.rule.text,
}


def _compile(pattern: str) -> Any:
    return re2.compile(pattern) if pattern else None


def _measure(request: Request) -> int:
    """The number of characters in the texts and in the tools' descriptions."""
    texts = (
        block.text for message in request.messages for block in message.blocks if isinstance(block, Text)
    )
    return sum(map(len, texts)) + sum(len(tool.description or "") for tool in request.tools)


def _is(first: object, second: object) -> bool:
    return first is second
