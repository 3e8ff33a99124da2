"""One session: a process of Claude Code with the caller's tools, and the state of its conversation.

The package docstring shows the states. A session takes one request at a time. After each request, also a
failed one, it is parked, idle or ended.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from dragoman.config.provider import Provider
from dragoman.upstream.claude_code.conversation import (
    Conversation,
    HistoryItem,
    extend_history,
    fingerprint,
    outline,
)
from dragoman.upstream.claude_code.folders import SessionRecord
from dragoman.upstream.claude_code.matching import SessionSnapshot, SessionState
from dragoman.upstream.claude_code.process import (
    MCP_SERVER,
    AgentSdk,
    ClaudeProcess,
    ProcessSettings,
    build_command,
    build_environment,
)
from dragoman.upstream.claude_code.reply_joiner import CallerCall, ReplyJoiner, write_calls
from dragoman.upstream.claude_code.tools import PendingResults, ToolPermissions, ToolSet, build_mcp_server
from dragoman.upstream.claude_code.transcript import CANCELLED, write_project_folder, write_transcript

Json = dict[str, Any]

#: Seconds that Claude Code gets to interrupt a turn, or to read a new list of tools.
REACTION_TIMEOUT = 15.0
#: Seconds between two checks of a condition without an event.
POLL = 0.02
#: Bytes of the last reply that a session keeps for a client that sends its request again.
MAX_KEPT_REPLY = 1024 * 1024
#: Unread messages above which Claude Code has to wait for the caller.
MAX_UNREAD = 1000


class ProcessEnded(Exception):
    """Claude Code has ended; the message gives the reason."""


class MessageQueue:
    """Messages of Claude Code to the current turn. Without a turn they are dropped."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._is_open = False
        self._waiter: asyncio.Future[None] | None = None

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        self._is_open = False
        self._messages.clear()

    async def add(self, message: Any) -> None:
        while self._is_open and len(self._messages) >= MAX_UNREAD:
            await asyncio.sleep(POLL)
        if self._is_open:
            self._messages.append(message)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def take(self) -> Any:
        while not self._messages:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._messages.popleft()

    def fail(self, error: Exception) -> None:
        """Raise the error in the task that waits in `take`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class ClaudeSession:
    """One session. `on_change` is called after each change of state."""

    def __init__(
        self, session: str, provider: Provider, settings: ProcessSettings, tools: ToolSet, folder: Path
    ) -> None:
        self.id = session
        self.provider = provider
        self.settings = settings
        self.tools = tools
        self.folder = folder
        self.owner = ""
        self.state: SessionState = "running"
        #: Groups of tool calls since the last user content, and requests in all.
        self.call_groups = 0
        self.requests = 0
        #: Calls without a result, by the caller's id.
        self.waiting: dict[str, CallerCall] = {}
        self.is_overdue = False
        #: The current request forbids calls (`tool_choice: none`).
        self.forbids_calls = False
        #: Loop time of the last change of state.
        self.since = asyncio.get_running_loop().time()
        self.on_change: Callable[[], None] = lambda: None
        self.permissions = ToolPermissions(session, lambda: self.allowed_tools)
        self.queue = MessageQueue()
        self.outline = ""
        #: Fingerprint of the last request that was answered, and its reply.
        self.last_request = ""
        self.last_reply = b""
        self._fingerprint = ""
        self._results = PendingResults()
        self._is_ended = False
        self._client: Any = None
        self._process: ClaudeProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None

    # Start and end.

    async def open(self, sdk: AgentSdk, conversation: Conversation | None = None) -> None:
        """Start the process. With a conversation it continues from that history at once."""
        executable = sdk.find_executable(self.provider.sessions.command)
        server = build_mcp_server(sdk, lambda: self.tools, self._results)
        options = sdk.options(
            mcp_servers={MCP_SERVER: {"type": "sdk", "name": MCP_SERVER, "instance": server}},
            can_use_tool=self.permissions.build_callback(sdk),
            verbatim_prompts=True,
        )
        try:
            resume = self._write_files(conversation)
            command = build_command(executable, self.folder, self.settings, resume)
            variables = build_environment(self.provider, self.folder, self.settings, os.environ)
            self._process = ClaudeProcess(command, variables, self.folder)
            self._client = sdk.client(options, transport=self._process)
            await self._client.connect()
        except (sdk.error, OSError, ValueError) as error:
            # ValueError: an argument that no process can get, such as one with a null character.
            raise ProcessEnded(str(error)) from None
        self._reading = asyncio.get_running_loop().create_task(self._read(sdk))

    def _write_files(self, conversation: Conversation | None) -> str:
        """Write the files that the process reads. Return the name of the transcript, if there is one."""
        (self.folder / "system.txt").write_text(self.settings.system, "utf-8")
        if conversation is None:
            return ""
        name = str(uuid4())
        work = os.path.realpath(self.folder / "work")
        project = self.folder / "config" / "projects" / write_project_folder(work)
        project.mkdir(parents=True)
        transcript = write_transcript(conversation, name, work, self.settings.model)
        (project / f"{name}.jsonl").write_bytes(transcript)
        return name

    async def _read(self, sdk: AgentSdk) -> None:
        reason = "its output ended"
        try:
            async for message in self._client.receive_messages():
                await self.queue.add(message)
        except (sdk.error, OSError) as error:
            reason = str(error)
        self._is_ended = True
        await self.queue.add(ProcessEnded(reason))
        self.on_change()

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    async def close(self) -> None:
        """Kill the process, then release the SDK client.

        The process goes first: Claude Code takes a cancelled call for an error result and would call its
        model once more, with the whole context and for no client.
        """
        self._is_ended = True
        if self._process is not None:
            await self._process.kill()
        self._results.cancel()
        for task in (self._settling, self._reading):
            if task is not None:
                task.cancel()
        if self._client is not None:
            # A client whose `connect` was cancelled fails here in ways that the SDK does not document.
            with suppress(Exception):
                async with asyncio.timeout(REACTION_TIMEOUT):
                    await self._client.disconnect()

    # State.

    @property
    def allowed_tools(self) -> frozenset[str]:
        return frozenset() if self.forbids_calls else self.tools.names

    def build_snapshot(self) -> SessionSnapshot:
        """What `matching` must know of the session, as it is now."""
        return SessionSnapshot(
            id=self.id,
            owner=self.owner,
            model=self.settings.model,
            state=self.state,
            fingerprint=self._fingerprint,
            outline=self.outline,
            system=fingerprint((), self.settings.system),
        )

    def build_record(self, now: float) -> SessionRecord:
        """Build the record that outlives the session. `now` is the wall clock time."""
        tools = msgspec.Raw(msgspec.json.encode(self.tools.tools))
        return SessionRecord(
            session=self.id,
            owner=self.owner,
            outline=self.outline,
            calls=tuple(self.waiting),
            sent=now,
            tools=tools,
        )

    def summarize(self) -> dict[str, object]:
        """Describe the session for an operator, without any content of the conversation."""
        return {
            "id": self.id,
            "provider": self.provider.name,
            "state": self.state,
            "model": self.settings.model,
            "process": self._process.pid if self._process is not None else 0,
            "requests": self.requests,
            "waiting": len(self.waiting),
            "overdue": self.is_overdue,
            "seconds": round(asyncio.get_running_loop().time() - self.since, 1),
        }

    def describe(self) -> dict[str, object]:
        """Return the summary, the tools, the calls that wait, and the decisions about calls."""
        return {
            **self.summarize(),
            "rounds": self.call_groups,
            "tools": sorted(self.tools.names),
            "calls": [{"id": call.id, "tool": call.name} for call in self.waiting.values()],
            "audit": self.permissions.list_decisions(),
        }

    def assign(self, owner: str, session: str) -> None:
        """Give the session to an owner, under this id. A spare has no owner before."""
        self.owner = owner
        self.id = self.permissions.session = session

    def take(self) -> None:
        """A request begins."""
        self.state = "running"
        self.requests += 1
        self._mark_changed()

    def mark_idle(self, conversation: Conversation, joiner: ReplyJoiner, reply: bytes) -> None:
        """The reply is complete: wait for results, or for user content."""
        is_kept = len(reply) <= MAX_KEPT_REPLY
        self.last_request = fingerprint(conversation.items, self.owner) if is_kept else ""
        self.last_reply = reply if is_kept else b""
        self.waiting = {call.id: call for call in joiner.calls}
        for call in joiner.calls:
            self.permissions.set_public_id(call.inner_id, call.id)
        self.call_groups = self.call_groups + 1 if self.waiting else 0
        self._set_history("parked" if self.waiting else "idle", extend_history(conversation, joiner.blocks))

    def _set_history(self, state: SessionState, items: tuple[HistoryItem, ...]) -> None:
        self.queue.close()
        self.state = state
        self.is_overdue = False
        self._fingerprint, self.outline = fingerprint(items, self.owner), outline(items, self.owner)
        self._mark_changed()

    def _mark_changed(self) -> None:
        self.since = asyncio.get_running_loop().time()
        self.on_change()

    # Input for Claude Code.

    async def send_prompt(self, items: tuple[HistoryItem, ...]) -> None:
        """Send user content. In the middle of a turn the model gets it together with the results."""
        message = {"role": "user", "content": [item.block for item in items]}

        async def stream() -> AsyncIterator[Json]:
            yield {"type": "user", "message": message, "parent_tool_use_id": None}

        await self._client.query(stream())

    async def send(self, conversation: Conversation) -> None:
        """Send the new items of a request. User content cancels the calls that have no result."""
        if conversation.prompt:
            await self.send_prompt(conversation.prompt)
            self.call_groups = 0
        self.deliver(conversation.results)
        if conversation.prompt:
            self._cancel_calls()

    def deliver(self, results: tuple[HistoryItem, ...]) -> None:
        """Deliver results. Only the first result of a call counts."""
        for item in results:
            call = self.waiting.pop(item.id, None)
            if call is not None:
                self._results.resolve(call.inner_id, item.block)

    def _cancel_calls(self) -> None:
        limit = self.provider.sessions.call_timeout
        reason = f"[timed out: the caller gave no result within {limit:g} s]"
        for call in self.waiting.values():
            content = reason if self.is_overdue else CANCELLED
            self._results.resolve(call.inner_id, {"content": content, "is_error": True})
        self.waiting.clear()

    def repeat_calls(self, conversation: Conversation, *, one_at_a_time: bool) -> bytes:
        """Write a reply that repeats the calls whose results are missing, or only the first of them."""
        calls = list(self.waiting.values())[: 1 if one_at_a_time else None]
        self._set_history("parked", extend_history(conversation, [call.block for call in calls]))
        return write_calls(calls, self.settings.model, f"msg_{uuid4().hex[:24]}")

    async def replace_tools(self, tools: ToolSet) -> None:
        """Replace the tools, and wait until Claude Code has read the new list."""
        if tools.key == self.tools.key or self._process is None:
            return
        self.tools = tools
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        request = {"subtype": "mcp_message", "server_name": MCP_SERVER, "message": notice}
        line = {"type": "control_request", "request_id": f"tools_{uuid4().hex}", "request": request}
        await self._process.write(msgspec.json.encode(line).decode() + "\n")
        with suppress(TimeoutError):
            async with asyncio.timeout(REACTION_TIMEOUT):
                while await self._read_tool_names() != tools.names:
                    await asyncio.sleep(POLL)

    async def _read_tool_names(self) -> frozenset[str]:
        status = await self._client.get_mcp_status()
        servers = (server for server in status["mcpServers"] if server["name"] == MCP_SERVER)
        return frozenset(tool["name"] for server in servers for tool in server.get("tools") or ())

    # Interruption.

    def interrupt(self) -> None:
        """Stop the turn without waiting for the end. The history stays as it was before the turn."""
        if self.state == "running" and self._settling is None and not self._is_ended:
            self.state = "settling"
            self._cancel_calls()
            self._mark_changed()
            self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def wait_until_settled(self) -> None:
        if self._settling is not None:
            await asyncio.wait((self._settling,))

    async def _settle(self) -> None:
        """Interrupt Claude Code and read its messages up to the end of the turn."""
        self.queue.open()
        try:
            async with asyncio.timeout(REACTION_TIMEOUT):
                await self._client.interrupt()
                while type(message := await self.queue.take()).__name__ != "ResultMessage":
                    if isinstance(message, ProcessEnded):
                        return
        except (TimeoutError, ConnectionError):
            self._is_ended = True
        finally:
            self.queue.close()
            self._settling = None
            self.state = "idle"
            self._mark_changed()
