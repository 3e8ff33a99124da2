"""Which keys and headers of a request hold schemas, arguments, results or prose."""

SCHEMA_KEYS = {
    "input_schema",
    "output_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "responseJsonSchema",
    "responseSchema",
    "response_json_schema",
    "response_schema",
    "schema",
}
# Within a schema: named schemas, prose, values that may be prose, and lists that are no schemas.
NAMED_SCHEMA_KEYS = {"properties", "$defs", "definitions", "patternProperties"}
PROSE_KEYS = {"description", "title", "$comment"}
VALUE_KEYS = {"default", "examples", "example"}
LITERAL_KEYS = {"enum", "required", "type", "propertyOrdering"}

ARGUMENT_KEYS = {"arguments", "args", "input", "parsed_arguments"}
NESTED_JSON_KEYS = {"user_id", "x-codex-turn-metadata"}
# Codex notes the time, and names its first agent like a folder of the machine.
FIXED_VALUES = {"turn_started_at_unix_ms": 1794700000000, "agent_name": "/main"}
TEXT_KEYS = {"text", "content"}
RESULT_TYPES = {"tool_result", "function_call_output", "custom_tool_call_output", "tool_search_output"}

LABEL_OF_ROLE = {
    "system": "System text",
    "developer": "Developer text",
    "user": "User text",
    "assistant": "Assistant text",
    "model": "Assistant text",
    "tool": "Result text",
}
LABEL_OF_KEY = {
    "system": "System text",
    "systemInstruction": "System text",
    "instructions": "System text",
    "functionResponse": "Result text",
}

# The others describe the connection or the machine.
KEPT_HEADERS = {
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "authorization",
    "content-type",
    "openai-beta",
    "originator",
    "session-id",
    "thread-id",
    "user-agent",
    "x-api-key",
    "x-app",
    "x-claude-code-agent-id",
    "x-claude-code-session-id",
    "x-client-request-id",
    "x-codex-beta-features",
    "x-codex-turn-metadata",
    "x-codex-window-id",
    "x-goog-api-client",
    "x-goog-api-key",
    "x-openai-internal-codex-responses-lite",
    "x-session-affinity",
    "x-session-id",
    "x-stainless-helper-method",
    "x-stainless-lang",
}
