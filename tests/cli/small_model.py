"""A model with a small context window that wants long outputs of commands, and refuses what does not fit."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

#: The shell of each agent, and the argument with the command.
SHELLS = {"Bash": "command", "exec_command": "cmd", "run_shell_command": "command", "bash": "command"}
PROMPT = "print all numbers"
SUMMARY = "<analysis>short</analysis><summary>SUMMARY: some numbers were printed.</summary>"
FINAL = "marigold and heliotrope"


class SmallModel:
    """`sizes` has the tokens of each request, at four characters each."""

    def __init__(self, window: int, rounds: int) -> None:
        self.window, self.rounds = window, rounds
        self.calls = 0
        self.sizes: list[int] = []
        #: The messages of the latest request that has tools.
        self.latest = ""
        self.lock = Lock()
        self.url = ""

    @property
    def overflows(self) -> int:
        return sum(size > self.window for size in self.sizes)

    @property
    def compactions(self) -> int:
        """How often a conversation got shorter by a quarter of the window."""
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        return sum(before - after > self.window // 4 for before, after in pairs)

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any], int]:
        """The status, a message or an error, and the size of the request."""
        size = len(json.dumps([body["messages"], body.get("tools", [])])) // 4
        with self.lock:
            if body.get("tools"):
                # Not the title of the session.
                self.sizes.append(size)
                self.latest = json.dumps(body["messages"])
            if size > self.window:
                text = f"This model's maximum context length is {self.window} tokens, not {size}."
                return 400, {"error": {"message": text, "code": "context_length_exceeded"}}, size
            last = body["messages"][-1]
            text = json.dumps(last)
            is_answered = PROMPT in text or "SUMMARY:" in text
            if last["role"] == "user" and "summar" in text.lower() and not is_answered:
                return 200, {"role": "assistant", "content": SUMMARY}, size
            names = [tool["function"]["name"] for tool in body.get("tools", [])]
            shell = next((name for name in names if name in SHELLS), "")
            if not shell or self.calls >= self.rounds:
                return 200, {"role": "assistant", "content": FINAL}, size
            self.calls += 1
            start = self.calls * 10_000
            arguments = {SHELLS[shell]: f"seq {start} {start + 1_300}", "description": "print"}
            if SHELLS[shell] == "cmd":
                del arguments["description"]
            function = {"name": shell, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{self.calls}", "type": "function", "function": function}
            return 200, {"role": "assistant", "tool_calls": [call]}, size


def write_stream(message: dict[str, Any], size: int, cached: int = 0) -> bytes:
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    usage: dict[str, object] = {"prompt_tokens": size, "completion_tokens": 20, "total_tokens": size + 20}
    usage["prompt_tokens_details"] = {"cached_tokens": cached}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**base, "choices": [], "usage": usage},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


@contextmanager
def serving_small_model(window: int, rounds: int) -> Iterator[SmallModel]:
    model = SmallModel(window, rounds)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, message, size = model.answer(body)
            data = write_stream(message, size) if status == 200 else json.dumps(message).encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            models = [
                {"id": "tiny-coder", "max_model_len": window},
                {"id": "other-coder", "max_model_len": 9_000},
            ]
            data = json.dumps({"data": models}).encode() if self.path == "/v1/models" else b""
            self.send_response(200 if data else 404)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        model.url = f"http://127.0.0.1:{listener.server_address[1]}"
        Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield model
        finally:
            listener.shutdown()
