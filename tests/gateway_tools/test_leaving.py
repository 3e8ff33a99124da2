"""A client that leaves stops everything that the gateway does for it, whenever it leaves."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.gateway_tools.tool import ToolRun
from dragoman.hub.usage import Usage
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, Piece, RememberingClient, Script, ScriptedUpstream, Wait, provider
from tests.exchange.governing import question, script
from tests.exchange.sample_replies import DIALECTS
from tests.gateway_tools.running import SECRET, LookUp, events_of_round, use_tools
from tests.gateway_tools.test_rounds import OWN, Block, conversations

#: Seconds of the head and of each piece of an answer, and of a run.
SECONDS = 1.0
#: Seconds in which everything must have stopped.
STOPPED = 0.1


class SlowLookUp(LookUp):
    """A tool that takes its time, and knows how many runs go on."""

    open = 0

    async def run(self, run: ToolRun) -> str:
        self.open += 1
        try:
            await asyncio.sleep(2.5 * SECONDS)
        finally:
            self.open -= 1
        return SECRET


def slow_script(upstream: str, number: int, blocks: list[Block], *, stream: bool) -> Script:
    """An answer whose pieces come one by one."""
    whole = script(upstream, events_of_round(number, blocks, Usage(input=9, output=1)), stream=stream)
    pieces: list[Piece] = [part for piece in whole.pieces for part in (Wait(SECONDS), piece)]
    return Script(pieces=pieces, headers=whole.headers, after=SECONDS)


@settings(max_examples=120, deadline=None)
@given(
    rounds=conversations(),
    client=st.sampled_from(DIALECTS),
    upstream=st.sampled_from(DIALECTS),
    stream=st.booleans(),
    # In steps of half of what each part takes, so that a client also leaves when something begins or ends.
    left_at=st.integers(0, 60).map(lambda steps: steps * SECONDS / 2),
)
def test_a_client_that_leaves_stops_everything(
    rounds: list[list[Block]], client: str, upstream: str, stream: bool, left_at: float
) -> None:
    scripts = [slow_script(upstream, n, blocks, stream=stream) for n, blocks in enumerate(rounds)]
    scripted, tool = ScriptedUpstream(*scripts), SlowLookUp()
    bench = use_tools(Bench({"up": scripted}, [provider("up", upstream)]), tool=tool)

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        listener = RememberingClient()
        exchange = bench.exchange(question(client, tools=(OWN,), stream=stream), listener)
        task = loop.create_task(exchange.run())
        await asyncio.wait((task,), timeout=left_at)
        is_over, calls, writes = task.done(), len(scripted.calls), len(listener.writes)
        if not is_over:
            exchange.abandon()
        async with asyncio.timeout(STOPPED):
            await task
        assert is_over or exchange.record.is_cancelled or exchange.record.ending == "finished"
        assert (tool.open, len(scripted.calls), len(listener.writes)) == (0, calls, writes)
        assert all(answer.closed_at is not None for answer in scripted.answers)
        # Nothing starts later.
        await asyncio.sleep(100 * SECONDS)
        assert (tool.open, len(scripted.calls), len(listener.writes)) == (0, calls, writes)

    run(leave())
