"""What OpenAI's Chat Completions API refuses, in its own words.

Reasoning is played as DeepSeek's servers do, so `reasoning_content` may come back on assistant messages.
"""

import re
from collections.abc import Mapping

from tests.e2e.upstream.checks.rules import (
    Checked,
    Json,
    Refused,
    Result,
    is_image_address,
    is_object_text,
    need,
    need_strict_schema,
    only,
    words,
)
from tests.e2e.upstream.vault import Vault

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_ID = 40
FIELDS = words(
    "model messages max_completion_tokens max_tokens temperature top_p presence_penalty frequency_penalty "
    "seed logit_bias stop n logprobs top_logprobs stream stream_options tools tool_choice "
    "parallel_tool_calls response_format reasoning_effort verbosity modalities service_tier "
    "prompt_cache_key prompt_cache_retention prompt_cache_options metadata store user safety_identifier"
)
MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "annotations", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}
PARTS_OF_ROLE = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def check(body: Json, headers: Mapping[str, str], vault: Vault) -> Checked:
    del headers, vault
    only(body, FIELDS, "Unrecognized request argument supplied: {}")
    need(isinstance(body.get("model"), str), "you must provide a model parameter")
    need(body.get("messages"), "Invalid 'messages': empty array. Expected an array with minimum length 1")
    _settings(body)
    _tools(body)
    return Checked(results=_Walk().messages(body["messages"]))


def _settings(body: Json) -> None:
    if "stream_options" in body:
        need(body.get("stream"), "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        only(body["stream_options"], {"include_usage", "include_obfuscation"}, "Unknown parameter: {}")
    need(
        not ("max_tokens" in body and "max_completion_tokens" in body),
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
    )
    stop = body.get("stop") or []
    need(isinstance(stop, str) or len(stop) <= 4, "Invalid 'stop': array too long. Expected at most 4")
    need(0 <= body.get("temperature", 1) <= 2, "Invalid 'temperature': expected a value between 0 and 2")
    need(body.get("reasoning_effort", "low") in EFFORTS, "Invalid value for 'reasoning_effort'")
    metadata = body.get("metadata") or {}
    need(len(metadata) <= 16, "Invalid 'metadata': too many properties")
    for name, value in metadata.items():
        need(len(name) <= 64 and isinstance(value, str) and len(value) <= 512, "Invalid 'metadata'")
    form = body.get("response_format") or {"type": "text"}
    need(form.get("type") in ("text", "json_object", "json_schema"), "Invalid 'response_format.type'")
    if form["type"] == "json_schema":
        inner = form.get("json_schema") or {}
        need(
            NAME.fullmatch(inner.get("name", "")),
            "Missing required parameter: 'response_format.json_schema.name'",
        )
        if inner.get("strict"):
            need_strict_schema(inner["schema"], inner["name"])


def _tools(body: Json) -> None:
    tools = body.get("tools")
    if tools is None:
        need(
            "tool_choice" not in body,
            "Invalid value for 'tool_choice': only allowed when 'tools' are specified.",
        )
        need(
            "parallel_tool_calls" not in body,
            "Invalid value for 'parallel_tool_calls': only allowed when 'tools' are specified.",
        )
        return
    need(tools, "Invalid 'tools': empty array. Expected an array with minimum length 1")
    names: set[str] = set()
    for index, tool in enumerate(tools):
        at = f"tools[{index}]"
        need(
            tool.get("type") in ("function", "custom"), f"Invalid value: '{tool.get('type')}' for '{at}.type'"
        )
        only(tool, {"type", tool["type"]}, f"Unknown parameter: '{at}.{{}}'")
        inner = tool.get(tool["type"]) or {}
        name = inner.get("name", "")
        need(
            NAME.fullmatch(name),
            f"Invalid '{at}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'",
        )
        need(name not in names, f"Invalid '{at}': tool names must be unique")
        names.add(name)
        if tool["type"] == "function":
            _function(inner, at)
    _choice(body.get("tool_choice"), names)


def _function(function: Json, at: str) -> None:
    only(
        function, {"name", "description", "parameters", "strict"}, f"Unknown parameter: '{at}.function.{{}}'"
    )
    schema = function.get("parameters")
    if schema is None:
        return
    need(
        schema.get("type") == "object",
        f"Invalid schema for function '{function['name']}': schema must be of type object",
    )
    if function.get("strict"):
        need_strict_schema(schema, function["name"])


def _choice(choice: object, names: set[str]) -> None:
    if isinstance(choice, dict):
        need(
            choice.get("type") in ("function", "custom", "allowed_tools"),
            "Invalid value for 'tool_choice.type'",
        )
        if choice["type"] != "allowed_tools":
            name = choice[choice["type"]].get("name")
            need(name in names, f"Invalid value for 'tool_choice': tool '{name}' is not in 'tools'")
    else:
        need(choice in (None, "auto", "none", "required"), "Invalid value for 'tool_choice'")


class _Walk:
    """The history, read once; results must follow their calls at once, whole and once each."""

    def __init__(self) -> None:
        self._calls: dict[str, Json] = {}
        self._waiting: list[str] = []
        self._results: list[Result] = []

    def messages(self, messages: list[Json]) -> list[Result]:
        for index, message in enumerate(messages):
            at = f"messages[{index}]"
            role = message.get("role")
            if not isinstance(role, str) or role not in MESSAGE_FIELDS:
                raise Refused(f"Invalid value: '{role}' for '{at}.role'")
            given = {name: value for name, value in message.items() if value is not None}
            only(given, MESSAGE_FIELDS[role], f"Unknown parameter: '{at}.{{}}'")
            if role == "tool":
                self._result(message, at)
            else:
                self._all_answered(at)
            _content(message, role, at)
            if message.get("tool_calls") is not None:
                self._made(message["tool_calls"], at)
        self._all_answered("the end")
        return self._results

    def _all_answered(self, at: str) -> None:
        need(
            not self._waiting,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. Before {at}, these have no response: {', '.join(self._waiting)}",
        )

    def _made(self, calls: object, at: str) -> None:
        if not isinstance(calls, list) or not calls:
            raise Refused(f"Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1")
        for position, call in enumerate(calls):
            where = f"{at}.tool_calls[{position}]"
            identity = call.get("id", "")
            need(
                0 < len(identity) <= LONGEST_ID,
                f"Invalid '{where}.id': string too long. Maximum length {LONGEST_ID}",
            )
            need(identity not in self._calls, f"Duplicate value for 'tool_call_id' of {identity} in {where}")
            # OpenAI's own helpers send the index of a streamed call back.
            only(call, {"id", "type", "function", "custom", "index"}, f"Unknown parameter: '{where}.{{}}'")
            need(call.get("type") in ("function", "custom"), f"Missing required parameter: '{where}.type'")
            inner = call[call["type"]]
            need(NAME.fullmatch(inner.get("name", "")), f"Invalid '{where}.function.name'")
            if call["type"] == "function":
                need(
                    is_object_text(inner.get("arguments")),
                    f"Invalid '{where}.function.arguments': no JSON object",
                )
            self._calls[identity] = inner
            self._waiting.append(identity)

    def _result(self, message: Json, at: str) -> None:
        identity = message.get("tool_call_id", "")
        need(
            identity in self._waiting,
            f"Invalid parameter: {at} with role 'tool' must be a response to a preceding message with "
            f"'tool_calls': {identity}",
        )
        self._waiting.remove(identity)
        call = self._calls[identity]
        content = message.get("content")
        parts: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        arguments = str(call.get("arguments", call.get("input", "")))
        self._results.append(Result(call_id=identity, name=call["name"], arguments=arguments, text=text))


def _content(message: Json, role: str, at: str) -> None:
    content = message.get("content")
    if content is None:
        allowed = role == "assistant" and (message.get("tool_calls") or message.get("refusal"))
        need(allowed, f"Invalid value for '{at}.content': expected a string, got null.")
        return
    if isinstance(content, str):
        return
    need(content, f"Invalid '{at}.content': empty array. Expected an array with minimum length 1")
    for position, part in enumerate(content):
        kind = part.get("type")
        where = f"{at}.content[{position}]"
        need(kind in PARTS_OF_ROLE[role], f"Invalid value: '{kind}' for '{where}.type' in a {role} message")
        if kind == "text":
            need(isinstance(part.get("text"), str), f"Missing required parameter: '{where}.text'")
        if kind == "image_url":
            need(
                is_image_address((part.get("image_url") or {}).get("url")), f"Invalid '{where}.image_url.url'"
            )
