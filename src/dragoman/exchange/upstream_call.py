"""One call of one target: send the request, read the reply, pass it to the client.

Output is held until the first content (exceptions: `_receive_first`). A failure before it is raised; until
then the client has at most the head and pings. A later failure is sent in the client's dialect, and returned.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from dragoman.dialects.rate_limits import forward_rate_limits, with_retry_seconds
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.context import TrialContext
from dragoman.exchange.pass_through import CallCredential
from dragoman.exchange.record import SESSION_HEADER, ExchangeRecord
from dragoman.exchange.watchdog import Watchdog
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.hub.events import ReplyFailed
from dragoman.pipeline.reply import ReplyPipeline
from dragoman.pipeline.target_request import TargetRequest, WholeReply
from dragoman.routing.balancing import find_refusal
from dragoman.routing.health import TargetKey
from dragoman.upstream.port import PushReply, UpstreamReply, UpstreamRequest, can_push, read_body
from dragoman.wire.sse import Output, join_output

#: Bytes. A reply that is not streamed must fit in memory.
MAX_WHOLE_REPLY = 64 * 1024 * 1024
MAX_ERROR_BODY = 256 * 1024
#: Bytes of the upstream's reply that may wait for the first content; after that no other target is tried.
MAX_HELD = 1024 * 1024

#: Called at the first content of one of two calls that run at once. Returns the record and the watchdog of
#: the exchange, which this call then uses.
Claim = Callable[[], tuple[ExchangeRecord, Watchdog]]


class UpstreamCall:
    """One call, which may take several rounds. Constructed right before it runs."""

    #: The number of the request for the tap.
    _number = 0
    _reply: ReplyPipeline | None = None
    _whole_reply: WholeReply | None = None
    #: The target has answered a round of the reply. Sending the request again would repeat the round.
    has_answered_round = False

    def __init__(
        self,
        context: TrialContext,
        target_key: TargetKey,
        target_request: TargetRequest,
        credential: CallCredential,
        record: ExchangeRecord,
        watchdog: Watchdog,
        claim: Claim | None = None,
    ) -> None:
        self._context = context
        self._target_key = target_key
        self._plan = context.plan
        self._target_request = target_request
        self._handle = context.snapshot.handles[target_key.target.provider]
        self._provider = self._handle.provider
        self._credential = credential
        self._watches_refusal = bool(context.choice.route.on_refusal)
        self._sender = context.sender
        self._watchdog = watchdog
        self._record = record
        self._tools = context.tools.find(target_key.target) if context.tools else None
        self._claim = claim
        self._timer = context.timer
        #: Output before the first content: until that is there, another target can take over.
        self._held: list[Output] = []

    async def run(self) -> Failure | None:
        """Raises `UpstreamFailed` if no content was sent. Returns why the reply failed, if it did."""
        failure = await self._call(self._target_request.body)
        if self._claim is not None:
            self._claim_reply(self._claim)
        self.has_answered_round = True
        while self._target_request.needs_next_round:
            if self._target_request.unanswered:
                await self._run_tools()
            if self._target_request.needs_next_round:
                failure = await self._call_again()
        if self._tools is not None and failure is None:
            self._tools.remember(self._target_request.ended_rounds)
        return failure

    def _begin_output(self) -> list[Output]:
        """No other target can take over: the first content has come. Returns the stream's output so far."""
        if self._claim is not None:
            self._claim_reply(self._claim)
        self._record.mark_first_token(self._timer() - self._watchdog.started)
        self._target_request.release()
        held, self._held = self._held, []
        return held

    def _claim_reply(self, claim: Claim) -> None:
        """The target has answered: cancel the other call, of two targets that are called at once."""
        self._record, self._watchdog = claim()
        self._claim = None
        if self._record.tap is not None:
            self._record.tap.mark_answer(self._number)

    async def _run_tools(self) -> None:
        """Run the gateway's own tools. If the client has calls of its own to run, the reply ends here."""
        request = self._target_request
        if self._tools is None:
            return
        runs = await self._tools.run(request.unanswered, self._record.spent_tokens)
        self._record.tool_runs = self._tools.runs
        request.add_results([result for result, _ in runs], [block for _, run in runs for block in run.shown])
        if self._whole_reply is not None:
            self._whole_reply.resume()
            if not request.needs_next_round:
                await self._respond(self._whole_reply)
        elif self._reply is not None:
            await self._resume(self._reply)

    async def _resume(self, reply: ReplyPipeline) -> None:
        """Send what the client sees of the runs."""
        output = reply.resume()
        if not output:
            return
        output = join_output([*self._begin_output(), output])
        if self._target_request.needs_next_round:
            await self._sender.send(output)
        else:
            await self._sender.finish(output)

    async def fail(self, failure: Failure) -> None:
        """End a reply that has begun, for a reason of the gateway's."""
        if self._reply is not None:
            self._record.broken = failure
            await self._sender.finish(self._reply.fail(ReplyFailed("cancelled", failure)), failed=True)

    async def _call_again(self) -> Failure | None:
        """Continue the same reply with the model's answer to the next round."""
        self._record.end_round()
        body = self._target_request.build_next_body()
        reply = self._reply or self._whole_reply
        if reply is not None:
            reply.next_round()
        try:
            return await self._call(body)
        except UpstreamFailed as error:
            if self._reply is None or not self._sender.is_target_fixed:
                self._record.drop_rounds()
                raise
            self._record.broken = failure = self._redact(error.failure)
            output = join_output([*self._held, self._reply.fail(ReplyFailed("failed", failure))])
            await self._sender.finish(self._redact_if(failure, output), failed=True)
            return failure

    async def _call(self, body: bytes) -> Failure | None:
        """Send `body` and pass the reply to the client. Returns why it failed after its first content.

        Raises `UpstreamFailed` for an earlier failure.
        """
        provider, tap = self._provider, self._record.tap
        sees_headers = provider.wire_dialect == self._plan.metadata.dialect or provider.keeps_sessions
        if tap is not None:
            self._number = tap.note_request(self._target_key.target, provider.wire_dialect, body)
        preparation = None
        if self._target_request.lane == "translate":
            # It runs when the request is written, or while its connection opens.
            preparation = asyncio.get_running_loop().call_soon(self._target_request.prepare_reply)
        reply = await self._handle.upstream.send(
            UpstreamRequest(
                body=body,
                model=self._target_request.model,
                stream=self._plan.stream,
                key=self._target_key.key,
                headers=self._plan.metadata.headers if sees_headers else {},
                caller=self._context.caller.owner,
                credential=self._credential.headers,
            )
        )
        # The body is kept only by the request, which releases it when the reply begins.
        del body
        if preparation is not None:
            preparation.cancel()
        if tap is not None:
            reply = tap.wrap_reply(self._number, reply)
        self._watchdog.watch_upstream(self._provider.timeouts, reply.close, self._timer())
        try:
            self._note_head(reply)
            if reply.status >= 300:
                raise await self._read_failure(reply)
            return await (self._stream(reply) if self._plan.stream else self._receive_whole(reply))
        finally:
            self._watchdog.unwatch_upstream()
            reply.close()

    def _note_head(self, reply: UpstreamReply) -> None:
        headers = reply.headers
        http_api = dialect_named(self._provider.wire_dialect).http_api
        self._record.upstream_id = self._credential.redactor.redact(http_api.find_request_id(headers))
        if self._provider.keeps_sessions:
            self._record.session = headers.get(SESSION_HEADER, "")
        target = self._plan.dialect.http_api.rate_limits
        # The client's own account may be shown to it, the gateway's may not.
        has_key = bool(self._context.caller.owner) and not self._credential.headers
        self._record.upstream_limits = forward_rate_limits(
            headers, http_api.rate_limits, target, self._context.gateway.clock(), has_key=has_key
        )

    # Streamed replies

    async def _stream(self, upstream: UpstreamReply) -> Failure | None:
        reply = self._reply
        if reply is None:
            content_type = upstream.headers.get("content-type", "").lower()
            self._reply = reply = self._target_request.start_reply(content_type)
            self._record.tally = reply.tally
            self._record.reply_snapshots = self._target_request.reply_snapshots
        self._watchdog.tick = self._tick if self._target_request.needs_ticks else None
        pieces = upstream.pieces()
        await self._receive_first(pieces, reply)
        if self._target_request.needs_next_round and not reply.tally.has_content:
            await self._read_to_end(pieces)
            return None
        output = join_output(self._begin_output())
        if not reply.is_round_over:
            await self._sender.send(output)
            output = await self._send_rest(upstream, pieces, reply)
        await self._finish(output, reply, pieces)
        return self._record.broken

    def _tick(self) -> None:
        """Send calls that were held too long. The watchdog calls this while the upstream is silent."""
        reply = self._reply
        if reply is None or reply.is_round_over:
            return
        output = reply.release_overdue()
        if not self._sender.is_target_fixed:
            self._held.append(output)
        elif output:
            self._sender.send_soon(output)

    async def _receive_first(self, pieces: AsyncIterator[bytes], reply: ReplyPipeline) -> None:
        """Read until the first content, a call held for a limited time, the end of the round, or `MAX_HELD`.

        With `on_refusal` a refusal is no content. A failure until then is raised: the client does not see it.
        """
        size = 0
        try:
            async for piece in pieces:
                self._watchdog.count_received(piece)
                self._held.append(reply.feed(piece))
                size += len(piece)
                is_refusing = self._watches_refusal and reply.tally.is_refusing
                is_begun = (reply.tally.has_content and not is_refusing) or reply.holds_for_a_time
                if is_begun or reply.is_round_over or size > MAX_HELD:
                    break
            else:
                self._held.append(reply.close())
        except UpstreamFailed as error:
            raise UpstreamFailed(self._find_cause(error)) from None
        failure = reply.tally.failure or find_refusal(reply.tally, is_watched=self._watches_refusal)
        if failure is not None:
            raise UpstreamFailed(self._redact(failure))

    async def _send_rest(
        self, upstream: UpstreamReply, pieces: AsyncIterator[bytes], reply: ReplyPipeline
    ) -> Output:
        """Send the rest of the stream, each piece at once. Return the last output instead of sending it."""
        direct = self._sender.direct
        try:
            if direct is not None and can_push(upstream):
                return await self._send_by_callback(upstream, reply, direct)
            return await self._send_by_iteration(pieces, reply)
        except UpstreamFailed as error:
            return reply.fail(ReplyFailed("truncated", self._find_cause(error)))

    async def _send_by_iteration(self, pieces: AsyncIterator[bytes], reply: ReplyPipeline) -> Output:
        """Read the pieces in this task. Send every output except the last, which is returned."""
        async for piece in pieces:
            self._watchdog.count_received(piece)
            output = reply.feed(piece)
            if reply.is_round_over:
                return output
            if output:
                await self._sender.send(output)
        return reply.close()

    async def _send_by_callback(
        self, upstream: PushReply, reply: ReplyPipeline, direct: DirectConnection
    ) -> Output:
        """Send all but the last output, without waking this task: the upstream's connection calls `sink`."""
        watchdog, feed, encode, write = self._watchdog, reply.feed, direct.encode, direct.write
        last: Output = ()

        def sink(piece: bytes) -> bool:
            nonlocal last
            if piece[:1] == b":":
                watchdog.count_received(piece)
            else:
                watchdog.received += len(piece)
            output = feed(piece)
            if reply.is_round_over:
                last = output
                return False
            data = encode(output)
            if not data:
                # While events are held back nothing is sent, so the client needs pings.
                return True
            watchdog.has_sent = True
            return write(data)

        while not await upstream.push_to(sink):
            if reply.is_round_over:
                return last
            watchdog.is_sending = True
            await direct.wait_until_drained()
            watchdog.is_sending = False
        return reply.close()

    async def _finish(self, output: Output, reply: ReplyPipeline, pieces: AsyncIterator[bytes]) -> None:
        """Send the last output, and read the upstream to its end."""
        if self._target_request.needs_next_round:
            if output:
                await self._sender.send(output)
            return await self._read_to_end(pieces)
        failure = reply.tally.failure
        if failure is not None:
            self._record.broken = self._redact(failure)
            output = self._credential.redactor.redact_output(output)
        if not reply.passes_trailing:
            await self._sender.finish(output, failed=failure is not None)
            return await self._read_to_end(pieces)
        await self._sender.send(output)
        self._watchdog.end_soon(self._timer())
        try:
            async for piece in pieces:
                if more := reply.feed(piece):
                    await self._sender.send(self._redact_if(failure, more))
        except UpstreamFailed:
            pass
        await self._sender.finish(self._redact_if(failure, reply.close()))

    async def _read_to_end(self, pieces: AsyncIterator[bytes]) -> None:
        """Let the upstream end its reply, so that its connection can be reused."""
        self._watchdog.end_soon(self._timer())
        try:
            async for _ in pieces:
                pass
        except UpstreamFailed:
            pass

    # Whole replies

    async def _receive_whole(self, upstream: UpstreamReply) -> Failure | None:
        body = await self._read_body(upstream, MAX_WHOLE_REPLY)
        whole = self._whole_reply
        if whole is None:
            self._whole_reply = whole = self._target_request.start_whole_reply()
            self._record.tally = whole.tally
            self._record.reply_snapshots = self._target_request.reply_snapshots
        whole.feed(body, upstream.headers.get("content-type", "").lower())
        if self._target_request.needs_next_round:
            return None
        failure = whole.tally.failure or find_refusal(whole.tally, is_watched=self._watches_refusal)
        if failure is not None:
            raise UpstreamFailed(self._redact(failure))
        await self._respond(whole)
        return None

    async def _respond(self, whole: WholeReply) -> None:
        self._begin_output()
        await self._sender.respond(whole.build_body())

    async def _read_body(self, upstream: UpstreamReply, limit: int) -> bytes:
        try:
            return await read_body(upstream.pieces(), limit, self._watchdog.count_received)
        except UpstreamFailed as error:
            raise UpstreamFailed(self._find_cause(error)) from None

    # Failures

    async def _read_failure(self, upstream: UpstreamReply) -> UpstreamFailed:
        try:
            body = await self._read_body(upstream, MAX_ERROR_BODY)
        except UpstreamFailed:
            body = b""
        dialect = dialect_named(self._provider.wire_dialect)
        headers = with_retry_seconds(upstream.headers, self._context.gateway.clock())
        # A redirect is no answer to the client.
        status = upstream.status if upstream.status >= 400 else 502
        return UpstreamFailed(self._redact(dialect.read_error(status, headers, body)))

    def _find_cause(self, error: UpstreamFailed) -> Failure:
        return self._watchdog.find_cause(error.failure, self._provider.name)

    def _redact_if(self, failure: Failure | None, output: Output) -> Output:
        return output if failure is None else self._credential.redactor.redact_output(output)

    def _redact(self, failure: Failure) -> Failure:
        return self._credential.redactor.redact_failure(failure)
