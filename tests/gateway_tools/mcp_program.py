# mypy: ignore-errors
# The decorators of the SDK have types only where it is installed.
"""An MCP server for the tests: `python mcp_program.py [COUNT]` over stdio, or `... http PORT`."""

import base64
import os
import sys

import anyio
from mcp.server import MCPServer
from mcp_types import ImageContent, TextContent

server = MCPServer("notes")


@server.tool(description="Look up a note by its key.")
def lookup(key: str) -> str:
    if key == "broken":
        raise ValueError("no such note")
    return f"The note {key} says: the code word is {os.environ.get('CODE_WORD', 'heron')}."


@server.tool(description="A picture of a note.")
def picture() -> list[TextContent | ImageContent]:
    data = base64.b64encode(b"\x89PNG").decode()
    return [
        TextContent(type="text", text="Here:"),
        ImageContent(type="image", data=data, mime_type="image/png"),
    ]


@server.tool(description="Wait for a long time.")
async def wait() -> str:
    await anyio.sleep(60)
    return "done"


@server.tool(description="End the server.")
def end() -> str:
    os._exit(3)


def add_many(count: int) -> None:
    for number in range(count):

        def tool(text: str, number: int = number) -> str:
            return f"{number}: {text}"

        server.tool(name=f"convert_unit_{number}", description=f"Converts unit number {number}.")(tool)


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        add_many(int(sys.argv[1]) if sys.argv[1:] else 0)
        server.run("stdio")
