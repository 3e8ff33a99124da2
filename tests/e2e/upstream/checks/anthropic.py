"""What Anthropic's Messages API refuses, in its own words."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from tests.e2e.upstream.checks.rules import (
    IMAGE_TYPES,
    Checked,
    Json,
    Refused,
    Result,
    is_base64,
    need,
    only,
    words,
)
from tests.e2e.upstream.vault import Vault

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
FIELDS = words(
    "model messages max_tokens system stream stop_sequences temperature top_p top_k thinking "
    "output_config tools tool_choice metadata service_tier speed cache_control container inference_geo"
)
#: Fields that are only there for who asks for them by a header.
BETA_FIELDS = {
    "context_management": "context-management-2025-06-27",
    "mcp_servers": "mcp-client-2025-11-20",
}
BETAS = words(
    "claude-code-20250219 oauth-2025-04-20 extended-cache-ttl-2025-04-11 "
    "interleaved-thinking-2025-05-14 context-management-2025-06-27 "
    "per-turn-control-2026-07-01 mid-conversation-tool-changes-2026-07-01 thinking-token-count-2026-05-13 "
    "advanced-tool-use-2025-11-20 effort-2025-11-24 thinking-display-updates-2026-08-18 "
    "structured-outputs-2025-11-13 structured-outputs-2025-12-15 redact-thinking-2026-02-12 "
    "fallback-credit-2026-06-01 mcp-client-2025-11-20 fine-grained-tool-streaming-2025-05-14"
)
TOOL_FIELDS = words(
    "name description input_schema type cache_control defer_loading eager_input_streaming input_examples "
    "allowed_callers strict"
)
EXTRA = "{}: Extra inputs are not permitted"
BLOCKS_OF_ROLE = {
    "user": {"text", "image", "document", "search_result", "tool_result", "container_upload"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"},
    "system": {"text", "tool_addition", "tool_removal"},
}
RESULT_BLOCKS = {"text", "image", "document", "search_result", "tool_reference"}
MESSAGE_FIELDS = {"role", "content", "output_config", "clear_at"}


def check(body: Json, headers: Mapping[str, str], vault: Vault) -> Checked:
    betas = {name.strip() for name in headers.get("anthropic-beta", "").split(",") if name.strip()}
    need("anthropic-version" in headers, "anthropic-version: header is required")
    need(betas <= BETAS, f"Unexpected value(s) `{sorted(betas - BETAS)}` for the `anthropic-beta` header")
    only(body, FIELDS | {name for name, beta in BETA_FIELDS.items() if beta in betas}, EXTRA)
    need(isinstance(body.get("model"), str), "model: Field required")
    cap = body.get("max_tokens")
    need(isinstance(cap, int) and cap >= 1, "max_tokens: Field required")
    need(body.get("messages"), "messages: at least one message is required")
    _settings(body, betas)
    tools = _tools(body)
    _choice(body)
    _cache_marks(body)
    walk = _Walk(vault)
    results = walk.messages(body["messages"])
    need(
        tools or not walk.calls, "Requests which include `tool_use` or `tool_result` blocks must define tools"
    )
    _thinking_comes_back(body)
    return Checked(results=results, seals=walk.seals)


def _settings(body: Json, betas: set[str]) -> None:
    thinking = body.get("thinking") or {}
    kind = thinking.get("type", "disabled")
    need(kind in ("enabled", "adaptive", "disabled", "between_tools"), "thinking.type: unknown value")
    if thinking.get("display") == "updates":
        need("thinking-display-updates-2026-08-18" in betas, "thinking.display: Input should be 'summarized'")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        need(isinstance(budget, int) and budget >= 1024, "thinking.budget_tokens: must be at least 1024")
        need(budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`")
    elif kind != "disabled":
        need(
            "budget_tokens" not in thinking, "thinking.adaptive.budget_tokens: Extra inputs are not permitted"
        )
    if kind != "disabled":
        warm = body.get("temperature", 1)
        need(warm == 1, "`temperature` may only be set to 1 when thinking is enabled")
        need("top_k" not in body, "`top_k` must be unset when thinking is enabled")
    need(0 <= body.get("temperature", 1) <= 1, "temperature: range: 0..1")
    need(
        not ("temperature" in body and "top_p" in body),
        "`temperature` and `top_p` cannot both be specified for this model",
    )
    for stop in body.get("stop_sequences", []):
        need(stop.strip(), "stop_sequences: each stop sequence must contain non-whitespace")
    only(body.get("metadata") or {}, {"user_id"}, "metadata." + EXTRA)
    only(body.get("output_config") or {}, {"effort", "format", "task_budget"}, "output_config." + EXTRA)
    _texts("system", body.get("system", []))


def _texts(where: str, system: object) -> None:
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    assert isinstance(blocks, list)
    for index, block in enumerate(blocks):
        need(block.get("type") == "text", f"{where}.{index}: only text")
        need(block.get("text", "").strip(), f"{where}: text content blocks must contain non-whitespace text")


def _tools(body: Json) -> list[Json]:
    tools: list[Json] = body.get("tools", [])
    names: set[str] = set()
    for index, tool in enumerate(tools):
        name, at = tool.get("name", ""), f"tools.{index}.custom"
        need(NAME.fullmatch(name), f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        need(name not in names, "tools: Tool names must be unique.")
        names.add(name)
        if tool.get("type") in (None, "custom"):
            only(tool, TOOL_FIELDS, f"{at}." + EXTRA)
            _schema(tool.get("input_schema"), f"{at}.input_schema")
    return tools


def _schema(schema: object, at: str) -> None:
    if not isinstance(schema, dict):
        raise Refused(f"{at}: Field required")
    need(schema.get("type") == "object", f"{at}.type: Input should be 'object'")
    for word in ("oneOf", "allOf", "anyOf"):
        need(
            word not in schema, f"{at}: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )
    for name in schema.get("properties") or {}:
        need(PROPERTY.fullmatch(name), f"{at}.properties: Property keys should match pattern")


def _choice(body: Json) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    need(body.get("tools"), "tool_choice may only be specified while providing tools")
    need(choice.get("type") in ("auto", "any", "tool", "none"), "tool_choice: unknown type")
    if (body.get("thinking") or {}).get("type", "disabled") != "disabled":
        need(
            choice["type"] in ("auto", "none"),
            "Thinking may not be enabled when tool_choice forces tool use.",
        )
    if choice["type"] == "tool":
        named = {tool["name"] for tool in body["tools"]}
        need(choice.get("name") in named, f"Tool '{choice.get('name')}' not found in provided tools")


def _cache_marks(body: Json) -> None:
    marks = sum(1 for block in _everything(body) if "cache_control" in block)
    need(marks <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")


def _everything(value: object) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for key, inner in value.items():
            if key not in ("input", "input_schema"):
                yield from _everything(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _everything(inner)


def _thinking_comes_back(body: Json) -> None:
    """With a thinking budget, the calls that are being answered must come with their thinking."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    turns = [message for message in body["messages"] if message["role"] == "assistant"]
    blocks = turns[-1]["content"] if turns else []
    if not isinstance(blocks, list) or not any(block["type"] == "tool_use" for block in blocks):
        return
    last = body["messages"][-1]["content"]
    if isinstance(last, list) and any(block["type"] == "tool_result" for block in last):
        first = blocks[0]["type"]
        need(
            first in ("thinking", "redacted_thinking"),
            f"Expected `thinking` or `redacted_thinking`, but found `{first}`",
        )


class _Walk:
    """The history, read once: the roles, which calls wait for results, which seals come back."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.calls: dict[str, Json] = {}
        self.seals = 0
        self._waiting: list[str] = []
        self._answered: list[str] = []
        self._results: list[Result] = []
        self._role = ""

    def messages(self, messages: list[Json]) -> list[Result]:
        need(messages[0].get("role") == "user", 'messages: first message must use the "user" role')
        for index, message in enumerate(messages):
            only(message, MESSAGE_FIELDS, f"messages.{index}." + EXTRA)
            self._message(message, f"messages.{index}")
        need(self._role != "assistant", "This model does not support assistant message prefill.")
        return self._results

    def _message(self, message: Json, at: str) -> None:
        role, content = message.get("role"), message.get("content")
        need(role in BLOCKS_OF_ROLE, f"{at}.role: Input should be 'user' or 'assistant'")
        assert isinstance(role, str)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list) or not blocks:
            raise Refused(f"{at}: all messages must have non-empty content")
        if role != "user":
            self._close(at)
        elif self._role == "assistant":
            self._answered = []
        for position, block in enumerate(blocks):
            where = f"{at}.content.{position}"
            need(
                block.get("type") in BLOCKS_OF_ROLE[role],
                f"{where}: unexpected {block.get('type')} for {role}",
            )
            self._block(block, where)
        if role == "user":
            self._close(at)
        if role != "system":
            self._role = role

    def _close(self, at: str) -> None:
        """Every call must be answered in the very next user turn."""
        need(
            not self._waiting,
            f"{at}: `tool_use` ids without `tool_result` blocks immediately after: {self._waiting}",
        )

    def _block(self, block: Json, at: str) -> None:
        kind = block["type"]
        if kind == "text":
            need(block.get("text", "").strip(), f"{at}: text content blocks must contain non-whitespace text")
            need(not self._waiting or self._role != "assistant", f"{at}: tool_result blocks must come first")
        elif kind == "image":
            _image(block, at)
        elif kind == "thinking":
            self._thinking(block, at)
        elif kind == "redacted_thinking":
            need(
                self._vault.find("anthropic", block.get("data")),
                f"{at}: Invalid `data` in `redacted_thinking`",
            )
            self.seals += 1
        elif kind == "tool_use":
            self._call(block, at)
        elif kind == "tool_result":
            self._result(block, at)

    def _thinking(self, block: Json, at: str) -> None:
        issued = self._vault.find("anthropic", block.get("signature"))
        if issued is None or issued.text != block.get("thinking"):
            raise Refused(f"{at}: Invalid `signature` in `thinking` block")
        self.seals += 1

    def _call(self, block: Json, at: str) -> None:
        identity = block.get("id", "")
        need(CALL_ID.fullmatch(identity), f"{at}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        need(identity not in self.calls, f"{at}: `tool_use` ids must be unique")
        need(NAME.fullmatch(block.get("name", "")), f"{at}.name: String should match pattern")
        need(isinstance(block.get("input"), dict), f"{at}.input: Input should be a valid dictionary")
        self.calls[identity] = block
        self._waiting.append(identity)

    def _result(self, block: Json, at: str) -> None:
        identity = block.get("tool_use_id", "")
        need(identity not in self._answered, f"{at}: each tool_use must have a single result")
        need(
            identity in self._waiting,
            f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {identity}",
        )
        self._waiting.remove(identity)
        self._answered.append(identity)
        content = block.get("content", "")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts:
            need(part.get("type") in RESULT_BLOCKS, f"{at}.content: unexpected {part.get('type')}")
            if part["type"] == "image":
                _image(part, at)
            if part["type"] == "text" and not isinstance(content, str):
                need(
                    part.get("text", "").strip(),
                    f"{at}: text content blocks must contain non-whitespace text",
                )
        call = self.calls[identity]
        self._results.append(
            Result(
                call_id=identity,
                name=call["name"],
                arguments=msgspec.json.encode(call["input"]).decode(),
                text="\n".join(part["text"] for part in parts if part["type"] == "text"),
                failed=block.get("is_error") is True,
            )
        )


def _image(block: Json, at: str) -> None:
    source = block.get("source") or {}
    if source.get("type") == "base64":
        need(source.get("media_type") in IMAGE_TYPES, f"{at}.source.media_type: unknown image type")
        need(is_base64(source.get("data")), f"{at}.source.data: invalid base64")
    else:
        need(source.get("type") in ("url", "file"), f"{at}.source: Field required")
