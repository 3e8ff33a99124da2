"""Small requests in every dialect that ask the same."""

from collections.abc import Sequence

from dragoman.pipeline import translate_request

Json = dict[str, object]

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def chat_reply_with_call(name: str, arguments: str, call: str = "call_1") -> Json:
    """A whole Chat reply that calls one tool."""
    called = {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [called]}
    return {
        "id": "chatcmpl-12345678",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }


def declared(dialect: str, names: Sequence[str]) -> list[object]:
    """Tools of these names, with the same schema, in the words of the dialect."""
    match dialect:
        case "anthropic":
            return [{"name": name, "description": "It.", "input_schema": SCHEMA} for name in names]
        case "openai_chat":
            functions = [{"name": name, "description": "It.", "parameters": SCHEMA} for name in names]
            return [{"type": "function", "function": function} for function in functions]
        case "openai_responses":
            return [
                {
                    "type": "function",
                    "name": name,
                    "description": "It.",
                    "parameters": SCHEMA,
                    "strict": False,
                }
                for name in names
            ]
        case _:
            functions = [
                {"name": name, "description": "It.", "parametersJsonSchema": SCHEMA} for name in names
            ]
            return [{"functionDeclarations": functions}]


def asking(dialect: str, *, system: str = "", tools: Sequence[str] = ()) -> Json:
    """A request with the text "Hi", perhaps with a system prompt and tools."""
    body: Json = {}
    match dialect:
        case "anthropic":
            body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
            body |= {"system": system} if system else {}
        case "openai_chat":
            first = [{"role": "system", "content": system}] if system else []
            body = {"model": "m", "messages": [*first, {"role": "user", "content": "Hi"}]}
        case "openai_responses":
            body = {"model": "m", "input": "Hi", "store": False}
            body |= {"instructions": system} if system else {}
        case _:
            body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
            body |= {"systemInstruction": {"parts": [{"text": system}]}} if system else {}
    body |= {"tools": declared(dialect, tools)} if tools else {}
    return body


def body_for(request: Json, source: str, target: str) -> Json:
    return translate_request(request, source=source, target=target, model="m").body
