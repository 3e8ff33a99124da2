"""All sessions of one provider: lookup, start, limits and end.

Spares are processes that start before a session needs them (`sessions.warm`).
"""

import asyncio
import os
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from dragoman.config.provider import Provider
from dragoman.upstream.claude_code.conversation import Conversation
from dragoman.upstream.claude_code.errors import no_session_free
from dragoman.upstream.claude_code.folders import SessionFolders
from dragoman.upstream.claude_code.matching import SessionIndex, SessionSnapshot
from dragoman.upstream.claude_code.process import AgentSdk, ProcessSettings
from dragoman.upstream.claude_code.session import ClaudeSession, ProcessEnded
from dragoman.upstream.claude_code.tools import ToolSet
from dragoman.upstream.port import WaitingCalls

#: Seconds between two checks of the limits.
CHECK_INTERVAL = 0.25
#: Processes that start at the same time. A start takes a second of one core; without a limit, many new
#: conversations would slow down the sessions that run.
MAX_STARTS = max(2, (os.cpu_count() or 2) // 2)


class SessionCounters(msgspec.Struct, kw_only=True):
    """What happened to sessions since the gateway started."""

    spawned: int = 0
    continued: int = 0
    forwarded: int = 0
    repeated: int = 0
    replayed: int = 0
    evicted: int = 0
    expired: int = 0
    timed_out: int = 0
    denied: int = 0
    crashed: int = 0
    interrupted: int = 0
    orphans: int = 0


class SessionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a new session is started with. `session` is the id that it had before, if any."""

    settings: ProcessSettings
    tools: ToolSet
    owner: str
    conversation: Conversation
    session: str = ""
    forbids_calls: bool = False


class SessionPool:
    """The live sessions and spares of a provider. `index` is what requests are matched against."""

    def __init__(
        self,
        provider: Provider,
        sdk: AgentSdk,
        folders: SessionFolders,
        counters: SessionCounters,
        waiting_calls: WaitingCalls | None = None,
    ) -> None:
        self._provider = provider
        self._limits = provider.sessions
        self._sdk = sdk
        self._folders = folders
        self._counters = counters
        self._waiting_calls = waiting_calls
        self._live: dict[str, ClaudeSession] = {}
        #: Session ids by waiting call, by fingerprint of the history, and by fingerprint of the last request.
        self._by_call: dict[str, str] = {}
        self._by_fingerprint: dict[str, str] = {}
        self._by_request: dict[str, str] = {}
        #: Spares with the task that starts them; the oldest first.
        self._spares: dict[ClaudeSession, asyncio.Task[None]] = {}
        self._starts = asyncio.Semaphore(MAX_STARTS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._checking: asyncio.Task[None] | None = None
        self.index = SessionIndex(
            by_call=lambda call: self._find(self._by_call.get(call, "")),
            by_id=self._find,
            by_fingerprint=lambda value: self._find(self._by_fingerprint.get(value, "")),
            by_request=lambda value: self._find(self._by_request.get(value, "")),
            find_late=self._find_late,
            is_issued=folders.is_issued,
        )

    # Lookup.

    def _find(self, session: str) -> SessionSnapshot | None:
        found = self._live.get(session)
        if found is not None and found.is_ended:
            self.end(found)
            return None
        return found.build_snapshot() if found is not None else None

    def get(self, session: str) -> ClaudeSession | None:
        return self._live.get(session)

    def __iter__(self) -> Iterator[ClaudeSession]:
        return iter(tuple(self._live.values()))

    def create_id(self, owner: str) -> str:
        return self._folders.create_id(owner)

    def find_tools(self, session: str, owner: str, outline: str) -> ToolSet | None:
        """Find the tools of a live or ended session: by its id, else by the outline of its history."""
        tools = self._folders.records.find_tools(session, owner, outline)
        return ToolSet(tuple(tools)) if tools is not None else None

    def _find_late(self, call: str, owner: str) -> str:
        """Return the session of a call whose time is over, or an empty text.

        The rule is the same for a session that lives, has ended, or belonged to an earlier gateway.
        """
        record = self._folders.records.find_call(call, owner)
        limit = self._limits.call_timeout
        if record is None or not limit or time.time() - record.sent < limit:
            return ""
        live = self._live.get(record.session)
        # A result that the live session has received is a repetition and not late.
        return "" if live is not None and call not in live.waiting else record.session

    # Start.

    async def begin(self, spec: SessionSpec) -> ClaudeSession:
        """Start a session for a conversation, or take a spare. The session is `running`."""
        conversation, settings, tools = spec.conversation, spec.settings, spec.tools
        is_new = not conversation.history_length
        spare = await self._take_spare(settings, tools) if is_new and not spec.session else None
        if spare is None:
            self._make_room()
        # Another request may have started a session under this id in the meantime.
        name = "" if spec.session in self._live else spec.session
        name = name or self.create_id(spec.owner)
        session = spare or self._build(settings, tools, name)
        session.assign(spec.owner, name)
        session.forbids_calls = spec.forbids_calls
        session.call_groups = 0 if is_new else conversation.call_groups
        session.on_change = lambda: self._update_index(session)
        self._live[name] = session
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check_limits())
        session.take()
        if spare is None:
            session.queue.open()
            try:
                async with self._starts:
                    self._counters.spawned += 1
                    await session.open(self._sdk, None if is_new else conversation)
            except BaseException:
                self.end(session)
                raise
        if not is_new:
            self._counters.replayed += 1
        self._start_spare(settings, tools)
        return session

    def _build(self, settings: ProcessSettings, tools: ToolSet, name: str) -> ClaudeSession:
        return ClaudeSession(name, self._provider, settings, tools, self._folders.create(name))

    def _make_room(self) -> None:
        """End spares, then the sessions that rest longest, until one more fits."""
        while len(self._live) + len(self._spares) >= self._limits.limit:
            if self._spares:
                self._drop_spare(next(iter(self._spares)))
                continue
            resting = [one for one in self._live.values() if one.state in ("idle", "parked")]
            if not resting:
                raise no_session_free(self._limits.limit)
            self.end(min(resting, key=lambda one: one.since))
            self._counters.evicted += 1

    # Spares.

    def _find_spares(self, settings: ProcessSettings, tools: ToolSet) -> list[ClaudeSession]:
        return [one for one in self._spares if one.settings == settings and one.tools.key == tools.key]

    async def _take_spare(self, settings: ProcessSettings, tools: ToolSet) -> ClaudeSession | None:
        """Take a spare with these settings and tools, and wait until it has started."""
        for spare in self._find_spares(settings, tools):
            opening = self._spares.pop(spare, None)
            if opening is None:
                continue
            await asyncio.wait((opening,))
            if not spare.is_ended:
                return spare
            self._dispose(spare)
        return None

    def _start_spare(self, settings: ProcessSettings, tools: ToolSet) -> None:
        """Start a spare for the next session like this one, within the limits."""
        is_full = len(self._live) + len(self._spares) >= self._limits.limit
        if is_full or len(self._find_spares(settings, tools)) >= self._limits.warm:
            return
        if len(self._spares) >= self._limits.warm:
            self._drop_spare(next(iter(self._spares)))
        spare = self._build(settings, tools, self.create_id(""))
        self._spares[spare] = self._start_task(self._open_spare(spare))

    async def _open_spare(self, spare: ClaudeSession) -> None:
        """Start the process of a spare session. Sessions with a request start first."""
        while self._starts.locked():
            await asyncio.sleep(CHECK_INTERVAL)
        async with self._starts:
            self._counters.spawned += 1
            with suppress(ProcessEnded):
                return await spare.open(self._sdk)
        await spare.close()

    def _drop_spare(self, spare: ClaudeSession) -> None:
        opening = self._spares.pop(spare)
        opening.cancel()
        self._dispose(spare, opening)

    # Limits and end.

    def _update_index(self, session: ClaudeSession) -> None:
        self._remove_from_index(session)
        if session.state in ("idle", "parked", "settling"):
            self._by_fingerprint[session.build_snapshot().fingerprint] = session.id
            self._by_request[session.last_request] = session.id
        if session.state in ("idle", "parked") and not session.is_ended:
            self._folders.records.save(session.build_record(time.time()))
        for call in session.waiting:
            self._by_call[call] = session.id
        if self._waiting_calls is not None:
            calls = session.waiting if session.state == "parked" else ()
            self._waiting_calls.register(session.id, session.owner, calls, self._limits.park)

    def _remove_from_index(self, session: ClaudeSession) -> None:
        for index in (self._by_call, self._by_fingerprint, self._by_request):
            for key in [key for key, value in index.items() if value == session.id]:
                del index[key]

    def end(self, session: ClaudeSession) -> None:
        """End a session. It is not found any more; its process takes a moment longer."""
        if self._live.pop(session.id, None) is None:
            return
        self._remove_from_index(session)
        if self._waiting_calls is not None:
            self._waiting_calls.register(session.id, session.owner, (), 0.0)
        self._dispose(session)

    def _dispose(self, session: ClaudeSession, opening: asyncio.Task[None] | None = None) -> None:
        session.on_change = lambda: None
        self._start_task(self._close_session(session, opening))

    async def _close_session(self, session: ClaudeSession, opening: asyncio.Task[None] | None) -> None:
        """Wait for a start that was cancelled, end the process, and remove the folder in any case."""
        try:
            if opening is not None:
                await asyncio.wait((opening,))
            await session.close()
        finally:
            await asyncio.to_thread(self._folders.remove, session.folder)

    async def _check_limits(self) -> None:
        """Check the limits while there are sessions or spares."""
        loop = asyncio.get_running_loop()
        while self._live or self._spares:
            await asyncio.sleep(CHECK_INTERVAL)
            now = loop.time()
            for session in tuple(self._live.values()):
                self._check_session(session, now - session.since)
            for spare in tuple(self._spares):
                if spare.is_ended or (self._limits.idle and now - spare.since >= self._limits.idle):
                    self._drop_spare(spare)
        self._checking = None

    def _check_session(self, session: ClaudeSession, seconds: float) -> None:
        limits = self._limits
        if session.is_ended and session.state != "running":
            self.end(session)
            return
        is_late = bool(limits.call_timeout) and seconds >= limits.call_timeout
        if session.state == "parked" and is_late and not session.is_overdue:
            session.is_overdue = True
            self._counters.timed_out += len(session.waiting)
        limit = {"parked": limits.park, "idle": limits.idle}.get(session.state, 0.0)
        if limit and seconds >= limit:
            self._counters.expired += 1
            self.end(session)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End all sessions and spares, and remove the folders."""
        if self._checking is not None:
            self._checking.cancel()
        for session in self:
            self.end(session)
        for spare in tuple(self._spares):
            self._drop_spare(spare)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=30.0)
        self._folders.close()
