"""`McpServer`: the connection to one MCP server, by the official SDK, which is an optional package.

The SDK ties a connection to the task that opened it, so each server has a task of its own. It connects, lists
the tools, and waits until the gateway closes it or a call shows that the connection is lost. A server that
cannot be reached is tried again later.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import msgspec

from dragoman.config.tools import McpServerSettings
from dragoman.gateway_tools.tool import ToolFailed, ToolOutcome
from dragoman.hub.blocks import Media, Text
from dragoman.wire.fields import encode

LOGGER = logging.getLogger("dragoman")

#: Seconds to connect and to list the tools; and from the beginning of a connection that failed to the next.
CONNECT_SECONDS = 20.0
RETRY_SECONDS = 60.0
#: Seconds after which the tools are listed again at a request: some servers do not report changes.
LIST_SECONDS = 60.0
#: Seconds for a server to end.
CLOSE_SECONDS = 5.0
MAX_TOOLS = 1000
#: The notification of a server whose tools have changed.
LIST_CHANGED = "notifications/tools/list_changed"


class McpFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of an MCP server."""

    server: str
    name: str
    description: str
    schema: dict[str, object]


class McpServer:
    """One server. Call `connect` before `functions`; `close` once at the end."""

    def __init__(self, name: str, settings: McpServerSettings) -> None:
        self.name = name
        self._settings = settings
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        #: When the last connection began, and whether it was never ready.
        self._began_at: float | None = None
        self._listed_at = 0.0
        self._has_failed = False
        self._is_ready = asyncio.Event()
        #: Wakes the server's task: the connection must end, or the server has other tools now.
        self._signal = asyncio.Event()
        self._must_end = False
        self._is_closed = False
        #: The status of the last response over HTTP, if it was an error. The SDK does not pass it on.
        self._error_status = 0
        #: The tools that the server has and the configuration selects.
        self.functions: tuple[McpFunction, ...] = ()

    async def connect(self) -> None:
        """Connect if there is no connection. Returns when the tools are known, or the attempt has failed.

        Does not wait for a server that could not be reached the last time.
        """
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done():
            is_early = self._began_at is not None and loop.time() - self._began_at < RETRY_SECONDS
            if is_early or self._is_closed:
                return
            self._is_ready, self._signal, self._must_end = asyncio.Event(), asyncio.Event(), False
            self._began_at, self._error_status = loop.time(), 0
            self._task = loop.create_task(self._serve(), name=f"dragoman-mcp-{self.name}")
        elif self._client is not None and loop.time() - self._listed_at > LIST_SECONDS:
            self._signal.set()
        if not self._has_failed:
            await self._is_ready.wait()

    async def call(self, name: str, arguments: dict[str, object]) -> ToolOutcome:
        """Call a tool. Raises `ToolFailed`."""
        if self._client is None:
            raise ToolFailed(f"the MCP server {self.name} is not connected")
        try:
            result = await self._client.call_tool(name, arguments)
        except Exception as error:  # The SDK passes on those of its transports.
            if _is_lost(error):
                self._end()
            raise ToolFailed(f"the MCP server {self.name} failed: {self._explain(error)}") from None
        return _read_result(result.model_dump(mode="json", by_alias=True))

    async def close(self) -> None:
        self._is_closed = True
        self._end()
        if self._task is not None:
            done, _ = await asyncio.wait((self._task,), timeout=CLOSE_SECONDS)
            if not done:
                self._task.cancel()

    async def _serve(self) -> None:
        """Hold the connection open. Runs as the server's own task."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_SECONDS):
                    client = await stack.enter_async_context(await self._open(stack))
                    self.functions = tuple(await self._list_functions(client))
                self._client, self._has_failed = client, False
                self._is_ready.set()
                await self._follow(client)
            if not self._is_closed:
                LOGGER.warning("the connection to the MCP server %s is lost", self.name)
        except Exception as error:  # Whatever a server does, the gateway goes on without it.
            LOGGER.warning("the MCP server %s cannot be used: %s", self.name, self._describe(error))
        finally:
            self._has_failed = self._client is None
            self._client, self.functions = None, ()
            self._is_ready.set()

    async def _follow(self, client: Any) -> None:
        """List the tools again when the server reports that they changed, until the connection must end."""
        while not self._must_end:
            await self._signal.wait()
            self._signal.clear()
            if not self._must_end:
                async with asyncio.timeout(CONNECT_SECONDS):
                    self.functions = tuple(await self._list_functions(client))

    def _end(self) -> None:
        self._must_end = True
        self._signal.set()

    async def _read_message(self, message: object) -> None:
        """The SDK calls this for each message of the server that is no answer."""
        if getattr(message, "method", "") == LIST_CHANGED:
            self._signal.set()

    async def _open(self, stack: AsyncExitStack) -> Any:
        """The SDK's client for this server."""
        mcp, settings = import_module("mcp"), self._settings
        if settings.command:
            stdio = import_module("mcp.client.stdio")
            program, *arguments = settings.command
            env = {name: value.reveal() for name, value in settings.env.items()}
            parameters = stdio.StdioServerParameters(command=program, args=arguments, env=env)
            transport = stdio.stdio_client(parameters, errlog=asyncio.subprocess.DEVNULL)
            return mcp.Client(transport, message_handler=self._read_message)
        http = import_module("mcp.client.streamable_http")
        headers = {name: value.reveal() for name, value in settings.headers.items()}
        client = import_module("mcp.shared._httpx_utils").create_mcp_http_client(headers=headers)
        client.event_hooks = {"response": [self._note_response]}
        await stack.enter_async_context(client)
        transport = http.streamable_http_client(settings.url, http_client=client)
        return mcp.Client(transport, message_handler=self._read_message)

    async def _note_response(self, response: Any) -> None:
        """The SDK's HTTP client calls this. A server without a stream of messages refuses only GET."""
        if response.request.method == "POST":
            self._error_status = response.status_code if response.status_code >= 400 else 0

    def _explain(self, error: Exception) -> str:
        """Why a call failed, for the model."""
        return f"it answered with the status {self._error_status}" if self._error_status else str(error)[:300]

    def _describe(self, error: Exception) -> str:
        """Why there is no connection, without values, which may be secrets. The SDK wraps it in groups."""
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if self._error_status:
            hint = "; check `headers`" if self._error_status in (401, 403) else ""
            return f"it answered with the status {self._error_status}{hint}"
        if isinstance(error, TimeoutError):
            return f"it did not answer within {CONNECT_SECONDS:g} s"
        return type(error).__name__

    async def _list_functions(self, client: Any) -> list[McpFunction]:
        self._listed_at = asyncio.get_running_loop().time()
        found: list[McpFunction] = []
        cursor = None
        while len(found) < MAX_TOOLS:
            page = (await client.list_tools(cursor=cursor)).model_dump(mode="json", by_alias=True)
            for tool in page["tools"]:
                patterns = self._settings.tools
                if not patterns or any(fnmatchcase(tool["name"], pattern) for pattern in patterns):
                    found.append(
                        McpFunction(
                            server=self.name,
                            name=tool["name"],
                            description=tool.get("description") or tool.get("title") or "",
                            schema=tool.get("inputSchema") or {"type": "object", "properties": {}},
                        )
                    )
            cursor = page.get("nextCursor")
            if not cursor:
                break
        return found[:MAX_TOOLS]


def _is_lost(error: Exception) -> bool:
    """Whether an error of a call means that the connection cannot be used again."""
    if isinstance(error, ValueError | RuntimeError):
        # A result that does not fit the tool's schema.
        return False
    types = import_module("mcp_types")
    code = getattr(error, "code", types.CONNECTION_CLOSED)
    # With an invalid request a server answers that does not know the session, because it started again.
    return abs(code) in (abs(types.CONNECTION_CLOSED), abs(types.INVALID_REQUEST))


def _read_result(result: dict[str, Any]) -> ToolOutcome:
    """The result of a call: texts and pictures; other content is named."""
    content: list[Text | Media] = []
    for item in result.get("content") or ():
        match item:
            case {"type": "text", "text": str(text)}:
                content.append(Text(text=text))
            case {"type": "image", "data": str(data), "mimeType": str(kind)}:
                content.append(Media(kind="image", media_type=kind, data=data))
            case {"type": "resource", "resource": {"text": str(text)}}:
                content.append(Text(text=text))
            case _:
                content.append(Text(text=f"[{item.get('type')} {item.get('uri') or ''} left out]"))
    structured = result.get("structuredContent")
    if not content and structured is not None:
        content.append(Text(text=encode(structured).decode()))
    return ToolOutcome(content=tuple(content), is_error=bool(result.get("isError")))
