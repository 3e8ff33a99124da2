"""The port: a request finds its session, or gets a new one, and the turn is its answer."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from dragoman.config.model import Provider
from dragoman.hub.ids import digest
from dragoman.upstream.claude_code import conversation
from dragoman.upstream.claude_code.conversation import Conversation
from dragoman.upstream.claude_code.counters import Counters
from dragoman.upstream.claude_code.errors import (
    crashed,
    nothing_to_answer,
    session_not_found,
    tool_call_timeout,
)
from dragoman.upstream.claude_code.folders import Folders
from dragoman.upstream.claude_code.insight import details, summary
from dragoman.upstream.claude_code.joining import Call as ToolCall
from dragoman.upstream.claude_code.joining import asked_again
from dragoman.upstream.claude_code.matching import Claim, Verdict, decide
from dragoman.upstream.claude_code.process import Start
from dragoman.upstream.claude_code.replay import awaits_answer
from dragoman.upstream.claude_code.sdk import kit
from dragoman.upstream.claude_code.session import Ended, Session
from dragoman.upstream.claude_code.sessions import Sessions, Wish
from dragoman.upstream.claude_code.tools import declared, recalled
from dragoman.upstream.claude_code.turn import FixedAnswer, Turn, TurnAnswer
from dragoman.upstream.port import UpstreamReply, UpstreamRequest

Json = dict[str, Any]

#: Characters. Of a longer result Claude Code shows its model only the beginning; in a history it shows all.
LONGEST_RESULT = 400_000
#: By these a client shows who it is where the gateway asks for no key.
_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key")


class Asked:
    """A request as a session needs it."""

    def __init__(self, call: UpstreamRequest) -> None:
        body: Json = msgspec.json.decode(call.body)
        self.talk: Conversation = conversation.read(body)
        self.model = call.model
        self.stream = call.stream
        self.named = call.headers.get("x-session-id", "")
        self.owner = _owner(call)
        #: None keeps the session's.
        self.tools = declared(body)
        choice = body.get("tool_choice")
        self.one_at_a_time = isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True
        chose_none = isinstance(choice, dict) and choice.get("type") == "none"
        self.forbids_calls = chose_none or (self.tools is not None and not self.tools.tools)
        self.start = Start(model=call.model, system=self.talk.system, thinking=_thinking(body), key=call.key)

    def verdict(self, sessions: Sessions) -> Verdict:
        return decide(self.talk, Claim(owner=self.owner, model=self.model, named=self.named), sessions.known)


class ClaudeCodeUpstream:
    """One provider of the dialect `claude_code`."""

    def __init__(self, provider: Provider, state: Path) -> None:
        self._provider = provider
        self._state = state
        self._opening = asyncio.Lock()
        self._sessions: Sessions | None = None
        self.counters = Counters()

    def count_sessions(self) -> dict[str, int]:
        states = [session.state for session in self._sessions or ()]
        live = {"live": len(states), "parked": states.count("parked")}
        return {**live, **msgspec.structs.asdict(self.counters)}

    def list_sessions(self) -> list[dict[str, object]]:
        return [summary(session) for session in self._sessions or ()]

    def describe_session(self, session: str) -> dict[str, object] | None:
        found = self._sessions.get(session) if self._sessions is not None else None
        return details(found) if found is not None else None

    def end_session(self, session: str) -> bool:
        found = self._sessions.get(session) if self._sessions is not None else None
        if found is None or self._sessions is None:
            return False
        self._sessions.end(found)
        return True

    async def send(self, call: UpstreamRequest) -> UpstreamReply:
        sessions = await self._opened()
        asked = Asked(call)
        if not asked.talk.news:
            raise nothing_to_answer()
        verdict = asked.verdict(sessions)
        found = sessions.get(verdict.session) if verdict.step == "continue" else None
        if found is not None and found.state == "settling":
            await found.settled()
            verdict = asked.verdict(sessions)
            found = sessions.get(verdict.session) if verdict.step == "continue" else None
        if found is not None and any(len(atom.key) > LONGEST_RESULT for atom in asked.talk.results):
            sessions.end(found)
            verdict = msgspec.structs.replace(asked.verdict(sessions), session=found.id)
        match verdict.step:
            case "lost":
                raise session_not_found(verdict.session)
            case "late":
                error = tool_call_timeout(self._provider.sessions.call_timeout)
                return FixedAnswer(verdict.session, b"", error)
            case "again":
                return _asked_again(asked, verdict.session or sessions.new_id(asked.owner))
            case "continue" if found is not None:
                return self._continued(sessions, asked, found)
            case _:
                return await self._anew(sessions, asked, verdict.session)

    def _continued(self, sessions: Sessions, asked: Asked, session: Session) -> UpstreamReply:
        self.counters.continued += 1
        results = {atom.id for atom in asked.talk.results}
        waits = set(session.waiting) - results
        if waits and not asked.talk.words:
            return self._waits_on(asked, session)
        session.take()
        return self._answer(sessions, asked, self._turn(asked, session))

    def _waits_on(self, asked: Asked, session: Session) -> UpstreamReply:
        """Some results have come and some have not: the first are delivered, the others asked for again."""
        session.deliver(asked.talk.results)
        body = session.ask_again(asked.talk, one_at_a_time=asked.one_at_a_time)
        return FixedAnswer(session.id, body)

    def _turn(self, asked: Asked, session: Session) -> Turn:
        async def begin() -> None:
            session.forbids_calls = asked.forbids_calls
            if asked.tools is not None:
                await session.retool(asked.tools)
            await session.go_on(asked.talk)

        return Turn(session, asked.talk, self.counters, one_at_a_time=asked.one_at_a_time, begin=begin)

    async def _anew(self, sessions: Sessions, asked: Asked, session: str) -> UpstreamReply:
        try:
            turn = await self._begun(sessions, asked, session)
        except Ended as ended:
            raise crashed(str(ended)) from None
        return self._answer(sessions, asked, turn)

    async def _begun(self, sessions: Sessions, asked: Asked, session: str) -> Turn:
        if not awaits_answer(asked.talk):
            raise nothing_to_answer()
        outline = conversation.outline(asked.talk.history, asked.owner)
        tools = asked.tools if asked.tools is not None else sessions.tools_of(session, asked.owner, outline)
        if tools is None or not tools.tools:
            tools = recalled(asked.talk)
        start = asked.start
        if asked.talk.said and asked.talk.lacks_thoughts:
            # An API that thinks wants to see the thoughts behind calls that are being answered.
            start = msgspec.structs.replace(start, thinking=("--thinking", "disabled"))
        made = await sessions.begin(
            Wish(
                start=start,
                tools=tools,
                owner=asked.owner,
                talk=asked.talk,
                session=session,
                forbids_calls=asked.forbids_calls,
            )
        )

        async def begin() -> None:
            if not asked.talk.said:
                await made.prompt(asked.talk.words)

        return Turn(made, asked.talk, self.counters, one_at_a_time=asked.one_at_a_time, begin=begin)

    def _answer(self, sessions: Sessions, asked: Asked, turn: Turn) -> UpstreamReply:
        async def restart(ended: Ended) -> Turn:
            self.counters.crashed += 1
            try:
                return await self._begun(sessions, asked, turn.session.id)
            except Ended as again:
                raise crashed(str(again)) from None

        def lost(turn: Turn) -> None:
            sessions.end(turn.session)

        return TurnAnswer(turn, restart, lost, stream=asked.stream)

    async def _opened(self) -> Sessions:
        async with self._opening:
            if self._sessions is None:
                tools = await kit()
                folders = Folders(self._state)
                self.counters.orphans += await asyncio.to_thread(folders.open)
                self._sessions = Sessions(self._provider, tools, folders, self.counters)
            return self._sessions

    async def close(self) -> None:
        if self._sessions is not None:
            await self._sessions.close()


def _owner(call: UpstreamRequest) -> str:
    """Whose sessions these are: never shared between callers, wherever in a request they show their key."""
    if call.caller:
        return digest("caller", call.caller)
    return digest("shown", *(call.headers.get(name, "") for name in _CREDENTIALS))


def _asked_again(asked: Asked, session: str) -> UpstreamReply:
    """The history shows calls without results: ask for them, for which no session is needed."""
    calls = [
        ToolCall(atom.id, str(atom.block.get("name")), atom.block.get("input") or {})
        for atom in asked.talk.open_calls
    ]
    calls = calls[:1] if asked.one_at_a_time else calls
    return FixedAnswer(session, asked_again(calls, asked.model, f"msg_{digest(session, calls[0].id)}"))


def _thinking(body: Json) -> tuple[str, ...]:
    """How Claude Code is told what the caller wishes about reasoning."""
    words: list[str] = []
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        if thinking.get("type") == "enabled" and isinstance(thinking.get("budget_tokens"), int):
            words += ["--max-thinking-tokens", str(thinking["budget_tokens"])]
        elif thinking.get("type") in ("adaptive", "disabled"):
            words += ["--thinking", thinking["type"]]
    effort = (body.get("output_config") or {}).get("effort")
    if effort in ("low", "medium", "high", "xhigh", "max"):
        words += ["--effort", effort]
    return tuple(words)
