"""All sessions of one provider: found again, made, kept within their limits, and ended."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Iterator
from typing import Any, Literal

import msgspec

from dragoman.config.model import Provider
from dragoman.upstream.claude_code.conversation import Conversation
from dragoman.upstream.claude_code.counters import Counters
from dragoman.upstream.claude_code.errors import no_room
from dragoman.upstream.claude_code.folders import Folders
from dragoman.upstream.claude_code.matching import Known, Standing
from dragoman.upstream.claude_code.process import Start
from dragoman.upstream.claude_code.sdk import Kit
from dragoman.upstream.claude_code.session import Ended, Session
from dragoman.upstream.claude_code.tools import ToolSet

#: Seconds between two looks at the limits.
BEAT = 0.25
#: Tools of sessions that are gone, for callers that do not declare them again.
REMEMBERED = 1000


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is begun for. `session` is the id that it had before, if it had one."""

    start: Start
    tools: ToolSet
    owner: str
    talk: Conversation
    session: str = ""
    forbids_calls: bool = False


class Sessions:
    """`known` is what a request is matched with."""

    def __init__(self, provider: Provider, kit: Kit, folders: Folders, counters: Counters) -> None:
        self._provider = provider
        self._limits = provider.sessions
        self._kit = kit
        self._folders = folders
        self.counters = counters
        self._live: dict[str, Session] = {}
        self._calls: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        #: Processes that wait, and how far their start has come; the oldest first.
        self._spares: dict[Session, asyncio.Task[None]] = {}
        self._tools: OrderedDict[str, ToolSet] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self.known = Known(
            by_call=lambda call: self._standing(self._calls.get(call, "")),
            by_id=self._standing,
            by_mark=lambda mark: self._standing(self._marks.get(mark, "")),
            is_of=folders.is_of,
        )

    # Finding.

    def _standing(self, session: str) -> Standing | None:
        found = self._live.get(session)
        if found is not None and found.is_ended:
            self.end(found)
            return None
        return found.standing() if found is not None else None

    def get(self, session: str) -> Session | None:
        return self._live.get(session)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._live.values()))

    def new_id(self, owner: str) -> str:
        return self._folders.new_id(owner)

    def tools_of(self, session: str, owner: str, outline: str) -> ToolSet | None:
        """What a session that is gone, or stays behind, was told: this one of the owner's, or one like it."""
        live = (one.tools for one in self._live.values() if one.outline == outline)
        return self._tools.get(session + owner) or self._tools.get(outline) or next(live, None)

    # Making.

    async def begin(self, wish: Wish) -> Session:
        """A session that will answer a conversation; it counts as at work."""
        talk, start, tools = wish.talk, wish.start, wish.tools
        is_new = not talk.said
        spare = await self._ready_spare(start, tools) if is_new and not wish.session else None
        if spare is None:
            self._make_room()
        # Somebody else may have begun it anew a moment ago.
        session = "" if wish.session in self._live else wish.session
        session = session or self.new_id(wish.owner)
        made = spare or self._made(start, tools, session)
        made.belong_to(wish.owner, session)
        made.forbids_calls = wish.forbids_calls
        made.rounds = talk.rounds if talk.said else 0
        made.changed = lambda: self._changed(made)
        self._live[made.id] = made
        self._sweep()
        made.take()
        if spare is None:
            made.mailbox.listen()
            await self._open(made, None if is_new else talk)
        if not is_new:
            self.counters.replayed += 1
        self._warm(start, tools)
        return made

    def _made(self, start: Start, tools: ToolSet, session: str) -> Session:
        return Session(session, self._provider, start, tools, self._folders.session(session))

    async def _open(self, session: Session, talk: Conversation | None) -> None:
        self.counters.spawned += 1
        try:
            await session.open(self._kit, talk)
        except BaseException:
            self.end(session)
            raise

    def _make_room(self) -> None:
        while len(self._live) + len(self._spares) >= self._limits.limit:
            if self._spares:
                self._drop_spare(next(iter(self._spares)))
                continue
            resting = [one for one in self._live.values() if one.state in ("idle", "parked")]
            if not resting:
                raise no_room(self._limits.limit)
            self.end(min(resting, key=lambda one: one.since))
            self.counters.evicted += 1

    # Spares.

    async def _ready_spare(self, start: Start, tools: ToolSet) -> Session | None:
        """A process that waits for just such a session, once it has started."""
        for spare, opening in tuple(self._spares.items()):
            if spare.start == start and spare.tools.key == tools.key:
                del self._spares[spare]
                await asyncio.wait((opening,))
                if not spare.is_ended:
                    return spare
                self._dispose(spare)
        return None

    def _warm(self, start: Start, tools: ToolSet) -> None:
        """Have processes ready for the next sessions like this one."""
        fitting = [one for one in self._spares if one.start == start and one.tools.key == tools.key]
        if len(fitting) >= self._limits.warm or len(self._live) + len(self._spares) >= self._limits.limit:
            return
        if len(self._spares) >= self._limits.warm:
            self._drop_spare(next(iter(self._spares)))
        spare = self._made(start, tools, self.new_id(""))
        self._spares[spare] = self._later(self._open_spare(spare))

    async def _open_spare(self, spare: Session) -> None:
        self.counters.spawned += 1
        try:
            await spare.open(self._kit)
        except Ended:
            await spare.close()

    def _drop_spare(self, spare: Session) -> None:
        self._spares.pop(spare).cancel()
        self._dispose(spare)

    # Keeping.

    def _changed(self, session: Session) -> None:
        standing = session.standing()
        for index in (self._calls, self._marks):
            for key in [key for key, value in index.items() if value == session.id]:
                if index is self._marks or key not in session.waiting:
                    del index[key]
        if session.state in ("idle", "parked", "settling"):
            self._marks[standing.mark] = session.id
        for call in session.waiting:
            self._calls[call] = session.id

    def end(self, session: Session, cause: Literal["", "expired"] = "") -> None:
        """It is gone from here on; its process takes a moment longer."""
        if self._live.pop(session.id, None) is None:
            return
        if cause:
            self.counters.expired += 1
        for key in (session.id + session.owner, session.outline):
            self._tools[key] = session.tools
        while len(self._tools) > REMEMBERED:
            self._tools.popitem(last=False)
        for index in (self._calls, self._marks):
            for key in [key for key, value in index.items() if value == session.id]:
                del index[key]
        self._dispose(session)

    def _dispose(self, session: Session) -> None:
        session.changed = lambda: None
        self._later(self._closed(session))

    async def _closed(self, session: Session) -> None:
        await session.close()
        await asyncio.to_thread(self._folders.remove, session.folder)

    def _sweep(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        """Look after the limits for as long as there is anything to look after."""
        loop = asyncio.get_running_loop()
        while self._live or self._spares:
            await asyncio.sleep(BEAT)
            now = loop.time()
            for session in tuple(self._live.values()):
                self._look_at(session, now - session.since)
            for spare in tuple(self._spares):
                if spare.is_ended or (self._limits.idle and now - spare.since >= self._limits.idle):
                    self._drop_spare(spare)
        self._sweeping = None

    def _look_at(self, session: Session, rested: float) -> None:
        limits = self._limits
        if session.is_ended and session.state != "running":
            self.end(session)
        elif session.state == "parked":
            if limits.call_timeout and rested >= limits.call_timeout and not session.is_overdue:
                session.is_overdue = True
                self.counters.timed_out += len(session.waiting)
            if limits.park and rested >= limits.park:
                self.end(session, "expired")
        elif session.state == "idle" and limits.idle and rested >= limits.idle:
            self.end(session, "expired")

    def _later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for session in self:
            self.end(session)
        for spare in tuple(self._spares):
            self._drop_spare(spare)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=30.0)
        self._folders.close()
