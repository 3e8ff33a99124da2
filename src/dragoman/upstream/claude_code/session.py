"""One session: a process of Claude Code, the caller's tools in it, and where their conversation stands.

A session runs a turn, then waits: parked, for the results of calls, or idle, for words of the user. It
takes one request at a time; whatever happens to a request, the session ends up parked, idle or ended.
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

from dragoman.config.model import Provider
from dragoman.upstream.claude_code.conversation import Atom, Conversation, answered, fingerprint, outline
from dragoman.upstream.claude_code.joining import Call, Joiner, asked_again
from dragoman.upstream.claude_code.matching import Standing, State
from dragoman.upstream.claude_code.naming import SERVER
from dragoman.upstream.claude_code.permission import Auth
from dragoman.upstream.claude_code.process import Process, Start, command, environment
from dragoman.upstream.claude_code.replay import CANCELLED, project_folder, transcript
from dragoman.upstream.claude_code.sdk import Kit
from dragoman.upstream.claude_code.tools import Calls, ToolSet, mcp_server

Json = dict[str, Any]

#: Seconds for Claude Code to stop what it is doing, and to see new tools.
PATIENCE = 15.0
GLANCE = 0.02
#: Messages; beyond it Claude Code has to wait for the caller.
MOST_UNREAD = 1000


class Ended(Exception):
    """Claude Code is gone; says why."""


class Mailbox:
    """What Claude Code says to the one who listens; nobody has to."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._is_heard = False
        self._waiter: asyncio.Future[None] | None = None

    def listen(self) -> None:
        self._is_heard = True

    def stop(self) -> None:
        self._is_heard = False
        self._messages.clear()

    async def put(self, message: Any) -> None:
        while self._is_heard and len(self._messages) >= MOST_UNREAD:
            await asyncio.sleep(GLANCE)
        if self._is_heard:
            self._messages.append(message)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def take(self) -> Any:
        while not self._messages:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._messages.popleft()

    def disturb(self, error: Exception) -> None:
        """Whoever waits for a message gets this instead."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class Session:
    """`changed` is called whenever it stands somewhere else."""

    def __init__(self, session: str, provider: Provider, start: Start, tools: ToolSet, folder: Path) -> None:
        self.id = session
        self.provider = provider
        self.start = start
        self.model = start.model
        self.tools = tools
        self.folder = folder
        self.owner = ""
        self.state: State = "running"
        self.rounds = 0
        self.requests = 0
        self.waiting: dict[str, Call] = {}
        self.is_overdue = False
        #: The caller wants no calls now.
        self.forbids_calls = False
        self.since = asyncio.get_running_loop().time()
        self.changed: Callable[[], None] = lambda: None
        self.auth = Auth(session, lambda: self.callable)
        self.mailbox = Mailbox()
        self._calls = Calls()
        self._mark = ""
        #: Of what was said so far, but for Claude's words.
        self.outline = ""
        self._ended = False
        self._client: Any = None
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None

    # Beginning and end.

    async def open(self, kit: Kit, talk: Conversation | None = None) -> None:
        """Start the process. With a conversation it goes on from that at once."""
        executable = kit.executable(self.provider.sessions.command)
        server = {"type": "sdk", "name": SERVER, "instance": mcp_server(kit, lambda: self.tools, self._calls)}
        options = kit.options(
            mcp_servers={SERVER: server}, can_use_tool=self.auth.callback(kit), verbatim_prompts=True
        )
        try:
            words = command(executable, self.folder, self.start, self._written(talk))
            variables = environment(self.provider, self.folder, self.start, os.environ)
            self._process = Process(words, variables, self.folder)
            self._client = kit.client(options, transport=self._process)
            await self._client.connect()
        except (kit.error, OSError, ValueError) as error:
            # A value error is a name that no process can be given, such as one with a null in it.
            raise Ended(str(error)) from None
        self._reading = asyncio.get_running_loop().create_task(self._read(kit))

    def _written(self, talk: Conversation | None) -> str:
        """Write down what the process reads; gives the name of the history that it goes on from, if any."""
        (self.folder / "system.txt").write_text(self.start.system, "utf-8")
        if talk is None:
            return ""
        name = str(uuid4())
        work = os.path.realpath(self.folder / "work")
        histories = self.folder / "config" / "projects" / project_folder(work)
        histories.mkdir(parents=True)
        (histories / f"{name}.jsonl").write_bytes(transcript(talk, name, work, self.model))
        return name

    async def _read(self, kit: Kit) -> None:
        why = "its output ended"
        try:
            async for message in self._client.receive_messages():
                await self.mailbox.put(message)
        except (kit.error, OSError) as error:
            why = str(error)
        self._ended = True
        await self.mailbox.put(Ended(why))
        self.changed()

    @property
    def is_ended(self) -> bool:
        return self._ended

    async def close(self) -> None:
        self._ended = True
        self._calls.forget()
        for task in (self._settling, self._reading):
            if task is not None:
                task.cancel()
        if self._client is not None:
            try:
                async with asyncio.timeout(2 * PATIENCE):
                    await self._client.disconnect()
            except TimeoutError:
                pass
            finally:
                if self._process is not None:
                    self._process.kill()

    # Where it stands.

    def standing(self) -> Standing:
        return Standing(
            id=self.id,
            owner=self.owner,
            model=self.model,
            state=self.state,
            mark=self._mark,
            outline=self.outline,
            system=fingerprint((), self.start.system),
            overdue=frozenset(self.waiting) if self.is_overdue else frozenset(),
        )

    def belong_to(self, owner: str, session: str) -> None:
        """From here on it is somebody's, under this id."""
        self.owner = owner
        self.id = self.auth.session = session

    @property
    def callable(self) -> frozenset[str]:
        """The names of the tools that may be called."""
        return frozenset() if self.forbids_calls else self.tools.names

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def take(self) -> None:
        """A request is about to be answered."""
        self.state = "running"
        self.requests += 1
        self._moved()

    def rest(self, talk: Conversation, joiner: Joiner) -> None:
        """The turn is over, or stops for results."""
        self.waiting = {call.id: call for call in joiner.calls}
        for call in joiner.calls:
            self.auth.shown_as(call.inner_id, call.id)
        if self.waiting:
            self.rounds += 1
        else:
            self.rounds = 0
        self._stand("parked" if self.waiting else "idle", answered(talk, joiner.said))

    def _stand(self, state: State, atoms: tuple[Atom, ...]) -> None:
        self.mailbox.stop()
        self.state = state
        self.is_overdue = False
        self._mark, self.outline = fingerprint(atoms, self.owner), outline(atoms, self.owner)
        self._moved()

    def _moved(self) -> None:
        self.since = asyncio.get_running_loop().time()
        self.changed()

    # What is said to Claude Code.

    async def prompt(self, atoms: tuple[Atom, ...]) -> None:
        """Words of the user; in the middle of a turn they are heard with the results."""
        content = [atom.block for atom in atoms]

        async def one() -> AsyncIterator[Json]:
            yield {
                "type": "user",
                "message": {"role": "user", "content": content},
                "parent_tool_use_id": None,
            }

        await self._client.query(one())

    async def go_on(self, talk: Conversation) -> None:
        """Give it what the caller brings: results, words, or both. Words give up the calls they pass over."""
        if talk.words:
            await self.prompt(talk.words)
            self.rounds = 0
        self.deliver(talk.results)
        if talk.words:
            for call in tuple(self.waiting.values()):
                self._give_up(call)

    def deliver(self, results: tuple[Atom, ...]) -> None:
        """Each call gets its result once; whatever else comes under its id is the same again."""
        for atom in results:
            call = self.waiting.pop(atom.id, None)
            if call is not None:
                self._calls.answer(call.inner_id, atom.block)

    def _give_up(self, call: Call) -> None:
        self.waiting.pop(call.id)
        limit = self.provider.sessions.call_timeout
        why = f"[timed out: the caller gave no result within {limit:g} s]" if self.is_overdue else CANCELLED
        self._calls.answer(call.inner_id, {"content": why, "is_error": True})

    def ask_again(self, talk: Conversation, *, one_at_a_time: bool) -> bytes:
        """The calls that still wait: all of them, or the next."""
        calls = list(self.waiting.values())[: 1 if one_at_a_time else None]
        self._stand("parked", answered(talk, [call.block for call in calls]))
        return asked_again(calls, self.model, f"msg_{uuid4().hex[:24]}")

    async def retool(self, tools: ToolSet) -> None:
        """Other tools from here on; Claude Code asks for the list when it is told that it has changed."""
        if tools.key == self.tools.key or self._process is None:
            return
        self.tools = tools
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        request = {"subtype": "mcp_message", "server_name": SERVER, "message": notice}
        line = {"type": "control_request", "request_id": f"tools_{uuid4().hex}", "request": request}
        await self._process.write(msgspec.json.encode(line).decode() + "\n")
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while await self._listed() != tools.names:
                    await asyncio.sleep(GLANCE)

    async def _listed(self) -> frozenset[str]:
        status = await self._client.get_mcp_status()
        found = (server for server in status["mcpServers"] if server["name"] == SERVER)
        return frozenset(tool["name"] for server in found for tool in server.get("tools") or ())

    # Interrupting.

    def interrupt(self) -> None:
        """Stop the turn, and be as before it; nobody waits for this to be done."""
        if self.state == "running" and self._settling is None and not self._ended:
            self.state = "settling"
            for call in tuple(self.waiting.values()):
                self._give_up(call)
            self._moved()
            self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def settled(self) -> None:
        if self._settling is not None:
            await asyncio.wait((self._settling,))

    async def _settle(self) -> None:
        self.mailbox.listen()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._client.interrupt()
                while type(message := await self.mailbox.take()).__name__ != "ResultMessage":
                    if isinstance(message, Ended):
                        return
        except (TimeoutError, ConnectionError):
            self._ended = True
        finally:
            self.mailbox.stop()
            self._settling = None
            self.state = "idle"
            self._moved()
