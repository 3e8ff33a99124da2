"""What an exchange leaves behind: nothing that the garbage collector would have to find."""

import gc

import pytest

from dragoman.exchange.exchange import Exchange
from dragoman.pipeline.reply import TranslatedReply
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, Script, ScriptedUpstream, ask, provider
from tests.exchange.sample_replies import ANTHROPIC_STREAM, CHAT_STREAM


@pytest.mark.parametrize(
    ("client", "upstream", "stream"),
    [
        ("anthropic", "openai_chat", CHAT_STREAM),
        ("openai_responses", "openai_chat", CHAT_STREAM),
        ("gemini", "openai_chat", CHAT_STREAM),
        ("openai_chat", "openai_chat", CHAT_STREAM),
        ("openai_chat", "anthropic", ANTHROPIC_STREAM),
    ],
)
def test_an_exchange_that_is_over_is_freed_at_once(
    client: str, upstream: str, stream: tuple[bytes, ...]
) -> None:
    gc.collect()
    gc.disable()
    try:
        answering = ScriptedUpstream(Script(pieces=stream))
        bench = Bench({"up": answering}, [provider("up", upstream)])
        result = run(bench.run_exchange(ask(client)))
        left = [each for each in gc.get_objects() if isinstance(each, (Exchange, TranslatedReply))]
    finally:
        gc.enable()
    assert result.record.ending == "finished"
    assert left == []
