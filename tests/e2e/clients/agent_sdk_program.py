"""An application on the Claude Agent SDK with a tool of its own: asks, and prints the last answer."""

import asyncio
import importlib
import sys
from typing import Any

NOTE = "the note under {} says marzipan"


async def lookup(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": NOTE.format(arguments["key"])}]}


async def main(prompt: str) -> None:
    sdk: Any = importlib.import_module("claude_agent_sdk")
    tool = sdk.tool("lookup", "Looks up a note by its name.", {"key": str})(lookup)
    server = sdk.create_sdk_mcp_server(name="notes", version="1.0.0", tools=[tool])
    options = sdk.ClaudeAgentOptions(
        system_prompt="You look things up.",
        mcp_servers={"notes": server},
        allowed_tools=["Read", "Bash", "mcp__notes__lookup"],
        permission_mode="bypassPermissions",
    )
    result = ""
    async for message in sdk.query(prompt=prompt, options=options):
        result = getattr(message, "result", None) or result
    print(result)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
