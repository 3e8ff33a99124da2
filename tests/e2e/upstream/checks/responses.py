"""What OpenAI's Responses API refuses, in its own words; what Codex sends of its own is accepted."""

import re
from collections.abc import Mapping

import msgspec

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
LONGEST_CALL_ID = 64
FIELDS = words(
    "model input instructions previous_response_id conversation store background stream stream_options "
    "include tools tool_choice parallel_tool_calls max_tool_calls text reasoning max_output_tokens "
    "temperature top_p top_logprobs truncation service_tier prompt_cache_key prompt_cache_options "
    "prompt_cache_retention metadata user safety_identifier prompt context_management client_metadata"
)
INCLUDES = words(
    "reasoning.encrypted_content message.output_text.logprobs web_search_call.action.sources "
    "web_search_call.results file_search_call.results code_interpreter_call.outputs "
    "computer_call_output.output.image_url message.input_image.image_url"
)
HOSTED = {
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "tool_search",
}
PARTS_OF_ROLE = {
    "assistant": {"output_text", "refusal"},
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text"},
    "developer": {"input_text", "input_image"},
}
ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "tool_search_call": "tsc",
}
CALLS = {"function_call": "arguments", "custom_tool_call": "input", "tool_search_call": "arguments"}
OUTPUTS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "tool_search_output": "tool_search_call",
}
QUIET = {"additional_tools", "configuration_update", "compaction"}


def check(body: Json, headers: Mapping[str, str], vault: Vault) -> Checked:
    del headers
    only(body, FIELDS, "Unknown parameter: '{}'.")
    need(isinstance(body.get("model"), str), "Missing required parameter: 'model'.")
    need(body.get("input"), "One of 'input' or 'previous_response_id' or 'prompt' must be provided.")
    _settings(body)
    _tools(body.get("tools") or [], "tools")
    _choice(body)
    walk = _Walk(vault)
    if isinstance(body["input"], list):
        walk.items(body["input"])
    return Checked(results=walk.results, seals=walk.seals)


def _settings(body: Json) -> None:
    if "stream_options" in body:
        need(body.get("stream"), "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        only(body["stream_options"], {"include_obfuscation"}, "Unknown parameter: 'stream_options.{}'.")
    need(set(body.get("include") or []) <= INCLUDES, "Invalid value for 'include'")
    need(body.get("max_output_tokens", 16) >= 16, "Invalid 'max_output_tokens': expected a value >= 16")
    need(0 <= body.get("temperature", 1) <= 2, "Invalid 'temperature'")
    need(len(body.get("prompt_cache_key") or "") <= 64, "Invalid 'prompt_cache_key': string too long")
    only(
        body.get("reasoning") or {},
        {"effort", "summary", "context", "mode"},
        "Unknown parameter: 'reasoning.{}'.",
    )
    only(body.get("text") or {}, {"format", "verbosity"}, "Unknown parameter: 'text.{}'.")
    form = (body.get("text") or {}).get("format") or {"type": "text"}
    need(form.get("type") in ("text", "json_object", "json_schema"), "Invalid value for 'text.format.type'")
    if form["type"] == "json_schema":
        need(NAME.fullmatch(form.get("name", "")), "Missing required parameter: 'text.format.name'")
        need("schema" in form, "Missing required parameter: 'text.format.schema'")
    metadata = body.get("metadata") or {}
    need(len(metadata) <= 16, "Invalid 'metadata': too many properties")


def _tools(tools: list[Json], at: str) -> set[str]:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where, kind = f"{at}[{index}]", tool.get("type")
        if kind == "namespace":
            need(NAME.fullmatch(tool.get("name", "")), f"Invalid '{where}.name'")
            _tools(tool.get("tools", []), f"{where}.tools")
        elif kind in ("function", "custom"):
            name = tool.get("name", "")
            need(
                NAME.fullmatch(name),
                f"Invalid '{where}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'",
            )
            need(name not in names, f"Duplicate tool name '{name}' in '{at}'")
            names.add(name)
            if kind == "function":
                _function(tool, where)
        else:
            need(kind in HOSTED, f"Invalid value: '{kind}' for '{where}.type'")
    return names


def _function(tool: Json, at: str) -> None:
    need("parameters" in tool, f"Missing required parameter: '{at}.parameters'.")
    schema = tool["parameters"]
    if schema is None:
        return
    need(
        schema.get("type") == "object", f"Invalid schema for function '{tool['name']}': type must be 'object'"
    )
    # Functions are strict unless they have `strict: false`.
    if tool.get("strict", True):
        need_strict_schema(schema, tool["name"])


def _choice(body: Json) -> None:
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        need("tools" in body, "Invalid value for 'tool_choice': no tools are given")
    else:
        need(choice in (None, "auto", "none", "required"), "Invalid value for 'tool_choice'")
        need(
            choice != "required" or body.get("tools"),
            "Tool choice 'required' must be specified with 'tools'.",
        )


class _Walk:
    """The items, read once: calls and their outputs, and reasoning that must be the vendor's own."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._calls: dict[str, Json] = {}
        self._waiting: list[str] = []
        self.results: list[Result] = []
        self.seals = 0

    def items(self, items: list[Json]) -> None:
        for index, item in enumerate(items):
            at = f"input[{index}]"
            kind = item.get("type", "message" if "role" in item else "")
            prefix = ID_PREFIXES.get(kind)
            if item.get("id") is not None and prefix:
                need(
                    item["id"].startswith(prefix),
                    f"Invalid '{at}.id': '{item['id']}'. Expected an ID that begins with '{prefix}'.",
                )
            if kind == "message":
                _message(item, at)
            elif kind in CALLS:
                self._call(item, kind, at)
            elif kind in OUTPUTS:
                self._output(item, kind, at)
            elif kind == "reasoning":
                self._reasoning(item, at)
            else:
                need(kind in QUIET, f"Invalid value: '{kind}' for '{at}.type'")
            if kind == "additional_tools":
                _tools(item["tools"], f"{at}.tools")
        for identity in self._waiting:
            raise Refused(f"No tool output found for function call {identity}.")

    def _call(self, item: Json, kind: str, at: str) -> None:
        identity = item.get("call_id", "")
        need(
            0 < len(identity) <= LONGEST_CALL_ID,
            f"Invalid '{at}.call_id': string too long. Maximum length {LONGEST_CALL_ID}",
        )
        need(identity not in self._calls, f"Duplicate call_id {identity} in '{at}'")
        if kind != "tool_search_call":
            need(NAME.fullmatch(item.get("name", "")), f"Invalid '{at}.name'")
        if kind == "function_call":
            need(is_object_text(item.get("arguments")), f"Invalid '{at}.arguments': no JSON object")
        self._calls[identity] = item
        self._waiting.append(identity)

    def _output(self, item: Json, kind: str, at: str) -> None:
        identity = item.get("call_id", "")
        need(
            identity in self._waiting and self._calls[identity]["type"] == OUTPUTS[kind],
            f"No tool call found for function call output with call_id {identity}.",
        )
        self._waiting.remove(identity)
        output = item.get("output", "")
        parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
        for part in parts:
            _part(part, PARTS_OF_ROLE["user"], at)
        call = self._calls[identity]
        arguments = call[CALLS[call["type"]]]
        self.results.append(
            Result(
                call_id=identity,
                name=call.get("name", ""),
                arguments=arguments
                if isinstance(arguments, str)
                else msgspec.json.encode(arguments).decode(),
                text="\n".join(part["text"] for part in parts if part["type"] == "input_text"),
            )
        )

    def _reasoning(self, item: Json, at: str) -> None:
        need(isinstance(item.get("summary"), list), f"Missing required parameter: '{at}.summary'.")
        need(
            item.get("encrypted_content"),
            f"Item with id '{item.get('id')}' not found: items are not persisted when `store` is false.",
        )
        need(
            self._vault.find("openai_responses", item["encrypted_content"]),
            f"The encrypted content for item {item.get('id')} could not be verified.",
        )
        self.seals += 1


#: The last one is what Codex reports about a message to its own vendor.
MESSAGE_FIELDS = frozenset(
    {"type", "role", "content", "id", "status", "phase", "internal_chat_message_metadata_passthrough"}
)


def _message(item: Json, at: str) -> None:
    role = item.get("role")
    if not isinstance(role, str) or role not in PARTS_OF_ROLE:
        raise Refused(f"Invalid value: '{role}' for '{at}.role'")
    only(item, MESSAGE_FIELDS, f"Unknown parameter: '{at}.{{}}'.")
    content = item.get("content")
    need(isinstance(content, str | list), f"Missing required parameter: '{at}.content'.")
    for part in content if isinstance(content, list) else []:
        _part(part, PARTS_OF_ROLE[role], at)


def _part(part: Json, allowed: set[str], at: str) -> None:
    kind = part.get("type")
    need(kind in allowed, f"Invalid value: '{kind}' in '{at}'. Supported values are: {sorted(allowed)}")
    if kind in ("input_text", "output_text"):
        need(isinstance(part.get("text"), str), f"Missing required parameter: '{at}.text'.")
    if kind == "input_image":
        need("file_id" in part or is_image_address(part.get("image_url")), f"Invalid '{at}.image_url'")
