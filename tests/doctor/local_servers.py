"""Servers that behave like Ollama, LM Studio, llama.cpp and vLLM, as far as `dragoman setup` asks them.

Their models call the tool that the question names, and report the result.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = Callable[[dict[str, Any]], object]


class LocalServer:
    """Answers by its table of paths. `requests` has the path and the body of each request."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers = answers
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> object:
        self.requests.append((path, body))
        found = self.answers.get(path)
        return found(body) if callable(found) else found


def _build_handler(server: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            if self.path == "/v1/chat/completions" and not body:
                self.send_error(400)
                return
            if self.path == "/v1/chat/completions":
                server.requests.append((self.path, body))
                kind, data = "text/event-stream", answer_chat(body)
            else:
                found = server.answer(self.path, body)
                kind, data = "application/json", json.dumps(found).encode()
                if found is None:
                    self.send_error(404)
                    return
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    return Handler


def answer_chat(body: dict[str, Any]) -> bytes:
    """A stream: a call of the first tool if there is no result yet, otherwise text with the result."""
    has_result = any(message["role"] == "tool" for message in body["messages"])
    delta: dict[str, Any] = {"role": "assistant", "content": "pong, 83 degrees"}
    reason = "stop"
    if body.get("tools") and not has_result:
        function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"city": "Paris"}'}
        delta = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}],
        }
        reason = "tool_calls"
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**base, "choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


@contextmanager
def serving(answers: dict[str, object], port: int = 0) -> Iterator[LocalServer]:
    server = LocalServer(answers)
    with ThreadingHTTPServer(("127.0.0.1", port), _build_handler(server)) as listener:
        server.url = f"http://127.0.0.1:{listener.server_address[1]}"
        Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            listener.shutdown()


OLLAMA_MODELS: dict[str, dict[str, Any]] = {
    "nomic-embed:latest": {"capabilities": ["embedding"]},
    "gemma3:4b": {
        "capabilities": ["completion", "vision"],
        "model_info": {"general.architecture": "gemma3", "gemma3.context_length": 131_072},
    },
    "qwen3:8b": {
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
    },
    "coder:latest": {
        "capabilities": ["completion", "tools"],
        "parameters": 'stop          "<|im_end|>"\nnum_ctx       65536\ntemperature   0.7',
        "model_info": {"qwen3moe.context_length": 262_144},
    },
}


def ollama(loaded: dict[str, int] | None = None) -> dict[str, object]:
    """The answers of an Ollama 0.13. `loaded`: the windows of the loaded models."""
    known = dict(OLLAMA_MODELS)
    windows = dict(loaded or {})

    def create(body: dict[str, Any]) -> object:
        if body["from"] not in known:
            return None
        parameters = "\n".join(f"{name} {value}" for name, value in body["parameters"].items())
        known[body["model"]] = {**known[body["from"]], "parameters": parameters}
        return {"status": "success"}

    def list_loaded(_: object) -> object:
        return {
            "models": [
                {"name": name, "model": name, "context_length": size} for name, size in windows.items()
            ]
        }

    return {
        "/api/version": {"version": "0.13.5"},
        "/api/tags": lambda _: {"models": [{"name": name, "model": name} for name in known]},
        "/api/ps": list_loaded,
        "/api/show": lambda body: known.get(body["model"]),
        "/api/create": create,
        "/v1/models": lambda _: {
            "object": "list",
            "data": [{"id": name, "owned_by": "library"} for name in known],
        },
    }


LM_STUDIO: dict[str, object] = {
    "/api/v0/models": {
        "object": "list",
        "data": [
            {
                "id": "text-embedding-nomic",
                "type": "embeddings",
                "state": "not-loaded",
                "max_context_length": 2048,
            },
            {
                "id": "qwen/qwen3-coder-30b",
                "type": "llm",
                "state": "loaded",
                "max_context_length": 262_144,
                "loaded_context_length": 49_152,
                "capabilities": ["tool_use"],
            },
        ],
    },
    "/v1/models": {"object": "list", "data": [{"id": "qwen/qwen3-coder-30b", "object": "model"}]},
}
LLAMA_CPP: dict[str, object] = {
    "/props": {
        "default_generation_settings": {"id": 0, "n_ctx": 16_384, "params": {}},
        "total_slots": 1,
        "modalities": {"vision": False, "audio": False},
        "chat_template_caps": {"supports_tools": True},
    },
    "/v1/models": {
        "object": "list",
        "data": [{"id": "gpt-oss-20b.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}}],
    },
}
VLLM: dict[str, object] = {
    "/version": {"version": "0.14.0"},
    "/v1/models": {
        "object": "list",
        "data": [{"id": "Qwen/Qwen3-8B", "object": "model", "owned_by": "vllm", "max_model_len": 40_960}],
    },
}
