"""A tool server with one tool, `lookup`, that clients start themselves to have a tool from outside.

It uses the Model Context Protocol over standard input and output: one JSON object a line.
"""

import sys
from typing import Any

import msgspec

SCHEMA = {
    "type": "object",
    "properties": {"key": {"type": "string", "description": "The name of the note."}},
    "required": ["key"],
}
NOTE_TEXT = "The note says hello."
TOOL = {"name": "lookup", "description": "Looks up a note by its name.", "inputSchema": SCHEMA}


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            version = parameters.get("protocolVersion", "2025-06-18")
            about = {"name": "notes", "version": "1.0.0"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": NOTE_TEXT}]}
        case "ping":
            return {}
    return None


def main() -> None:
    for line in sys.stdin.buffer:
        message = msgspec.json.decode(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        body |= (
            {"result": result}
            if result is not None
            else {"error": {"code": -32601, "message": "no such method"}}
        )
        sys.stdout.buffer.write(msgspec.json.encode(body) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
