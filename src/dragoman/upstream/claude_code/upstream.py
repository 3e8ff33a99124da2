"""`ClaudeCodeUpstream`: the port. Each request continues a session or starts one; its turn is the reply."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from dragoman.config.provider import Provider
from dragoman.dialects.registry import list_key_headers
from dragoman.fit.vendor_fields import check_vendor_extras
from dragoman.hub.ids import digest
from dragoman.upstream.claude_code.conversation import outline, read_conversation
from dragoman.upstream.claude_code.errors import (
    nothing_to_answer,
    process_crashed,
    session_not_found,
    tool_call_timeout,
)
from dragoman.upstream.claude_code.folders import SessionFolders, remove_leftovers
from dragoman.upstream.claude_code.matching import Match, SessionQuery, match_request
from dragoman.upstream.claude_code.process import ProcessSettings, find_executable, load_sdk
from dragoman.upstream.claude_code.reply_joiner import CallerCall, write_calls
from dragoman.upstream.claude_code.session import ClaudeSession, ProcessEnded
from dragoman.upstream.claude_code.session_pool import SessionCounters, SessionPool, SessionSpec
from dragoman.upstream.claude_code.tools import build_placeholder_tools, read_tools
from dragoman.upstream.claude_code.transcript import has_question
from dragoman.upstream.claude_code.turn import FixedReply, SessionTurn, TurnReply
from dragoman.upstream.port import UpstreamReply, UpstreamRequest, WaitingCalls

__all__ = ["ClaudeCodeUpstream", "build_upstream", "check_program", "remove_leftovers"]

Json = dict[str, Any]

#: Characters. Claude Code shortens a longer result for its model, but not in a transcript.
MAX_LIVE_RESULT = 400_000


class SessionRequest:
    """A request, as sessions need it."""

    def __init__(self, request: UpstreamRequest) -> None:
        body: Json = msgspec.json.decode(request.body)
        # A process of Claude Code has neither Anthropic's stored threads nor the results of its checks.
        check_vendor_extras(body)
        self.conversation = read_conversation(body)
        self.model = request.model
        self.stream = request.stream
        self.session = request.headers.get("x-session-id", "")
        self.owner = request.owner or _identify_owner(request)
        #: None: the request does not mention tools, so the session keeps its own.
        self.tools = read_tools(body)
        choice = body.get("tool_choice")
        choice = choice if isinstance(choice, dict) else {}
        self.one_at_a_time = choice.get("disable_parallel_tool_use") is True
        has_no_tools = self.tools is not None and not self.tools.tools
        self.forbids_calls = choice.get("type") == "none" or has_no_tools
        self.settings = ProcessSettings(
            model=request.model,
            system=self.conversation.system,
            thinking=_write_thinking_arguments(body),
            key=request.key,
        )

    def match(self, pool: SessionPool) -> Match:
        query = SessionQuery(owner=self.owner, model=self.model, session=self.session)
        return match_request(self.conversation, query, pool.index)


class ClaudeCodeUpstream:
    """One provider of the dialect `claude_code`. `state` is the folder for the sessions' files."""

    def __init__(self, provider: Provider, state: Path, waiting_calls: WaitingCalls | None = None) -> None:
        self._provider = provider
        self._state = state
        self._waiting_calls = waiting_calls
        self._opening = asyncio.Lock()
        self._pool: SessionPool | None = None
        self._counters = SessionCounters()

    def count_sessions(self) -> dict[str, int]:
        states = [session.state for session in self._pool or ()]
        live = {"live": len(states), "parked": states.count("parked")}
        return {**live, **msgspec.structs.asdict(self._counters)}

    def list_sessions(self) -> list[dict[str, object]]:
        return [session.summarize() for session in self._pool or ()]

    def describe_session(self, session: str) -> dict[str, object] | None:
        found = self._pool.get(session) if self._pool is not None else None
        return found.describe() if found is not None else None

    def end_session(self, session: str) -> bool:
        found = self._pool.get(session) if self._pool is not None else None
        if found is None or self._pool is None:
            return False
        self._pool.end(found)
        return True

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        pool = await self._open_pool()
        asked = SessionRequest(request)
        if not asked.conversation.new_items:
            raise nothing_to_answer()
        decision = asked.match(pool)
        session = pool.get(decision.session) if decision.action == "continue" else None
        if session is not None and session.state == "settling":
            await session.wait_until_settled()
            decision = asked.match(pool)
            session = pool.get(decision.session) if decision.action == "continue" else None
        if session is None and (reply := await self._forward(asked, decision, request)) is not None:
            return reply
        is_long = any(len(item.key) > MAX_LIVE_RESULT for item in asked.conversation.results)
        if session is not None and is_long:
            pool.end(session)
            decision = msgspec.structs.replace(asked.match(pool), session=session.id)
        match decision.action:
            case "not_found":
                raise session_not_found(decision.session)
            case "late":
                error = tool_call_timeout(self._provider.sessions.call_timeout)
                return FixedReply(decision.session, b"", error)
            case "repeat_reply" if (known := pool.get(decision.session)) is not None:
                self._counters.repeated += 1
                return FixedReply(known.id, known.last_reply)
            case "repeat_calls":
                return _repeat_calls(asked, decision.session or pool.create_id(asked.owner))
            case "continue" if session is not None:
                return self._continue(pool, asked, session)
            case _:
                return await self._begin(pool, asked, decision.session)

    async def _forward(
        self, asked: SessionRequest, decision: Match, request: UpstreamRequest
    ) -> UpstreamReply | None:
        """The reply of another gateway or worker, if the session that waits for the results is there."""
        calls = [item.id for item in asked.conversation.results]
        is_unknown = decision.action in ("replay", "not_found", "repeat_calls")
        if self._waiting_calls is None or request.owner or not calls or not is_unknown:
            return None
        reply = await self._waiting_calls.forward(self._provider.name, asked.owner, calls, request)
        if reply is not None:
            self._counters.forwarded += 1
        return reply

    def _continue(self, pool: SessionPool, asked: SessionRequest, session: ClaudeSession) -> UpstreamReply:
        self._counters.continued += 1
        conversation = asked.conversation
        missing = set(session.waiting) - {item.id for item in conversation.results}
        if missing and not conversation.prompt:
            session.deliver(conversation.results)
            body = session.repeat_calls(conversation, one_at_a_time=asked.one_at_a_time)
            return FixedReply(session.id, body)
        session.take()

        async def begin() -> None:
            session.forbids_calls = asked.forbids_calls
            if asked.tools is not None:
                await session.replace_tools(asked.tools)
            await session.send(conversation)

        turn = SessionTurn(
            session, conversation, self._counters, one_at_a_time=asked.one_at_a_time, begin=begin
        )
        return self._build_reply(pool, asked, turn)

    async def _begin(self, pool: SessionPool, asked: SessionRequest, session: str) -> UpstreamReply:
        try:
            turn = await self._begin_turn(pool, asked, session)
        except ProcessEnded as ended:
            raise process_crashed(str(ended)) from None
        return self._build_reply(pool, asked, turn)

    async def _begin_turn(self, pool: SessionPool, asked: SessionRequest, name: str) -> SessionTurn:
        """Start a session, under the id `name` if it is not empty, that answers the conversation."""
        conversation = asked.conversation
        if not has_question(conversation):
            raise nothing_to_answer()
        tools = asked.tools
        if tools is None:
            tools = pool.find_tools(name, asked.owner, outline(conversation.history, asked.owner))
        if tools is None or not tools.tools:
            tools = build_placeholder_tools(conversation)
        settings = asked.settings
        if conversation.history_length and conversation.lacks_thinking:
            # With thinking enabled, Anthropic's API refuses results of calls without their thinking blocks.
            settings = msgspec.structs.replace(settings, thinking=("--thinking", "disabled"))
        session = await pool.begin(
            SessionSpec(
                settings=settings,
                tools=tools,
                owner=asked.owner,
                conversation=conversation,
                session=name,
                forbids_calls=asked.forbids_calls,
            )
        )

        async def begin() -> None:
            if not conversation.history_length:
                await session.send_prompt(conversation.prompt)

        return SessionTurn(
            session, conversation, self._counters, one_at_a_time=asked.one_at_a_time, begin=begin
        )

    def _build_reply(self, pool: SessionPool, asked: SessionRequest, turn: SessionTurn) -> UpstreamReply:
        name = turn.session.id

        async def restart() -> SessionTurn:
            self._counters.crashed += 1
            try:
                return await self._begin_turn(pool, asked, name)
            except ProcessEnded as ended:
                raise process_crashed(str(ended)) from None

        wait = self._waiting_calls.wait_until_written if self._waiting_calls is not None else None
        return TurnReply(turn, restart, pool.end, stream=asked.stream, wait_until_parked=wait)

    async def _open_pool(self) -> SessionPool:
        async with self._opening:
            if self._pool is None:
                sdk = await load_sdk()
                folders = SessionFolders(self._state)
                secret = await self._waiting_calls.find_secret() if self._waiting_calls is not None else b""
                self._counters.orphans += await asyncio.to_thread(folders.open, secret)
                self._pool = SessionPool(self._provider, sdk, folders, self._counters, self._waiting_calls)
            return self._pool

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


def _identify_owner(request: UpstreamRequest) -> str:
    """Identify the caller, so that callers cannot reach each other's sessions."""
    if request.caller:
        return digest("caller", request.caller)
    # The gateway asks for no key, but a client may send one all the same.
    names = ("authorization", *list_key_headers())
    return digest("shown", *(request.headers.get(name, "") for name in names))


def _repeat_calls(asked: SessionRequest, session: str) -> UpstreamReply:
    """The history has calls without results: request them again. This needs no session."""
    calls = [
        CallerCall(item.id, str(item.block.get("name")), item.block.get("input") or {})
        for item in asked.conversation.open_calls
    ]
    calls = calls[:1] if asked.one_at_a_time else calls
    return FixedReply(session, write_calls(calls, asked.model, f"msg_{digest(session, calls[0].id)}"))


def _write_thinking_arguments(body: Json) -> tuple[str, ...]:
    """Write the command line arguments for the request's thinking and effort."""
    arguments: list[str] = []
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        if thinking.get("type") == "enabled" and isinstance(thinking.get("budget_tokens"), int):
            arguments += ["--max-thinking-tokens", str(thinking["budget_tokens"])]
        elif thinking.get("type") in ("adaptive", "disabled"):
            arguments += ["--thinking", thinking["type"]]
    effort = (body.get("output_config") or {}).get("effort")
    if effort in ("low", "medium", "high", "xhigh", "max"):
        arguments += ["--effort", effort]
    return tuple(arguments)


def build_upstream(
    provider: Provider, state: Path, waiting_calls: WaitingCalls | None = None
) -> ClaudeCodeUpstream:
    """See `upstream.kinds`."""
    return ClaudeCodeUpstream(provider, state, waiting_calls)


async def check_program(provider: Provider) -> str:
    """The path of Claude Code's executable. Raises an error that names what to install."""
    return await find_executable(provider)
