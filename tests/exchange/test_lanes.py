"""How a request and its reply travel: forwarded, renamed or translated; streamed or whole."""

import re

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.hub.seal import Seal, SealedItem, write_envelope
from tests.exchange.clock import run
from tests.exchange.fakes import JSON, SSE, Bench, Script, ScriptedUpstream, Wait, ask, provider
from tests.exchange.sample_replies import (
    ANTHROPIC_STREAM,
    CHAT_STREAM,
    CHAT_WHOLE,
    DIALECTS,
    GEMINI_STREAM,
    RESPONSES_CREATED,
    RESPONSES_FAILED,
    chat_text,
    event,
    gemini_text,
)

OWN_STREAMS = {"anthropic": ANTHROPIC_STREAM, "openai_chat": CHAT_STREAM, "gemini": GEMINI_STREAM}
WHOLE = {
    "anthropic": msgspec.json.encode(
        {
            "id": "msg_upstream1",
            "type": "message",
            "role": "assistant",
            "model": "model",
            "content": [{"type": "text", "text": "good day"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 12, "output_tokens": 3},
        }
    ),
    "openai_chat": CHAT_WHOLE,
    "gemini": gemini_text("good day", "STOP").removeprefix(b"data: "),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_reaches_every_client_as_a_legal_stream_of_its_dialect(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    outcome = run(Bench({"up": upstream}).run_exchange(ask(dialect)))
    assert outcome.client.status == 200
    assert outcome.client.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert dialect_named(dialect).check_stream(outcome.client.body) == []
    assert outcome.client.is_ended
    assert b"good" in outcome.client.body


@pytest.mark.parametrize("dialect", OWN_STREAMS)
@pytest.mark.rule("R120")
def test_a_stream_of_the_clients_own_dialect_is_forwarded_byte_for_byte(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=OWN_STREAMS[dialect]))
    question = ask(dialect)
    sent = question.body
    outcome = run(Bench({"up": upstream}, [provider("up", dialect)]).run_exchange(question))
    assert upstream.calls[0].body == sent
    assert outcome.client.body == b"".join(OWN_STREAMS[dialect])
    assert outcome.record.lane == "forward"
    assert outcome.record.ending == "finished"


def test_a_forwarded_request_need_not_be_one_that_we_can_read() -> None:
    upstream = ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    question = ask("anthropic", body={"tools": 5})
    sent = question.body
    outcome = run(Bench({"up": upstream}, [provider("up", "anthropic")]).run_exchange(question))
    assert upstream.calls[0].body == sent
    assert outcome.client.status == 200


def test_a_forwarded_stream_goes_on_with_one_write_per_read() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    outcome = run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    first_words = CHAT_STREAM[0] + CHAT_STREAM[1]
    assert outcome.client.writes == [first_words, *CHAT_STREAM[2:]]


def test_a_translated_stream_goes_on_with_one_write_per_read() -> None:
    pieces = [CHAT_STREAM[0] + CHAT_STREAM[1], *(chat_text(str(n)) * 3 for n in range(5)), *CHAT_STREAM[3:]]
    outcome = run(Bench({"up": ScriptedUpstream(Script(pieces=pieces))}).run_exchange(ask("anthropic")))
    # The finish, the usage and the last word are one ending for this client.
    assert len(outcome.client.writes) == 1 + 5 + 1


def test_an_event_that_comes_in_two_pieces_is_forwarded_whole() -> None:
    cut = [CHAT_STREAM[0] + CHAT_STREAM[1], CHAT_STREAM[2][:20], CHAT_STREAM[2][20:], *CHAT_STREAM[3:]]
    outcome = run(Bench({"up": ScriptedUpstream(Script(pieces=cut))}).run_exchange(ask("openai_chat")))
    assert outcome.client.writes[1] == CHAT_STREAM[2]
    assert outcome.client.body == b"".join(CHAT_STREAM)


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_a_forwarded_stream_keeps_its_line_ends(line_end: bytes) -> None:
    pieces = [piece.replace(b"\n", line_end) for piece in CHAT_STREAM]
    outcome = run(Bench({"up": ScriptedUpstream(Script(pieces=pieces))}).run_exchange(ask("openai_chat")))
    assert outcome.client.body == b"".join(pieces)


def test_what_follows_the_last_word_of_a_forwarded_stream_still_arrives() -> None:
    pieces = [*ANTHROPIC_STREAM, b": trailing comment\n\n"]
    bench = Bench({"up": ScriptedUpstream(Script(pieces=pieces))}, [provider("up", "anthropic")])
    outcome = run(bench.run_exchange(ask("anthropic")))
    assert outcome.client.body == b"".join(pieces)


@pytest.mark.rule("P47")
def test_a_request_for_another_model_changes_the_models_name_and_nothing_else() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    question = ask("openai_chat", model="alias", body={"vendor_field": 1.50, "user": "ü\\u00fc"})
    question.body = question.body.replace(b"1.5", b"1.50e0")
    outcome = run(Bench({"up": upstream}, model="true-name").run_exchange(question))
    sent = upstream.calls[0].body
    assert b'"vendor_field":1.50e0' in sent
    assert msgspec.json.decode(sent)["model"] == "true-name"
    assert outcome.record.lane == "patch"


@pytest.mark.rule("C9")
def test_the_reply_to_a_renamed_request_names_the_model_that_the_client_asked_for() -> None:
    pieces = [piece.replace(b'"model":"model"', b'"model":"true-name"') for piece in CHAT_STREAM]
    outcome = run(
        Bench({"up": ScriptedUpstream(Script(pieces=pieces))}, model="true-name").run_exchange(
            ask("openai_chat", model="alias")
        )
    )
    assert b'"model":"alias"' in outcome.client.body
    assert b"true-name" not in outcome.client.body


#: The member with the model's name in a reply, and in the object of each event that has one.
MODEL_MEMBERS = {
    "anthropic": b"model",
    "openai_chat": b"model",
    "openai_responses": b"model",
    "gemini": b"modelVersion",
}
#: Claude Code checks that the model of a reply is a Claude model.
CHECKED = "claude-sonnet-4-5-20250929"


@pytest.mark.rule("R116")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("server", ["anthropic", "openai_chat", "gemini"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_reply_names_the_model_that_the_client_asked_for(
    dialect: str, server: str, stream: bool
) -> None:
    """Whichever model answers, and whatever name its server writes."""
    name = msgspec.json.encode("gpt-oss-120b@server")
    sent = OWN_STREAMS[server] if stream else (WHOLE[server],)
    pieces = [piece.replace(b'"model":"model"', b'"model":' + name) for piece in sent]
    pieces = [piece.replace(b'"modelVersion":"model"', b'"modelVersion":' + name) for piece in pieces]
    script = Script(pieces=pieces, headers={"content-type": SSE if stream else JSON})
    bench = Bench({"up": ScriptedUpstream(script)}, [provider("up", server)], model="gpt-oss-120b")
    outcome = run(bench.run_exchange(ask(dialect, model=CHECKED, stream=stream)))
    assert outcome.client.status == 200
    assert b"gpt-oss" not in outcome.client.body
    named = re.findall(rb'"%b": ?"([^"]*)"' % MODEL_MEMBERS[dialect], outcome.client.body)
    assert set(named) == {CHECKED.encode()}


@pytest.mark.rule("P44")
def test_a_history_with_a_foreign_seal_in_it_is_not_forwarded_as_it_is() -> None:
    seal = write_envelope(
        [SealedItem(kind="reasoning", seal=Seal("gemini", "other", "proof"), parts=("hm",))]
    )
    history = {
        "messages": [
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": seal},
                    {"type": "text", "text": "yes"},
                ],
            },
            {"role": "user", "content": "go on"},
        ],
        "model": "model",
        "max_tokens": 5,
        "stream": True,
    }
    question = ask("anthropic")
    question.body = msgspec.json.encode(history)
    upstream = ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    run(Bench({"up": upstream}, [provider("up", "anthropic")]).run_exchange(question))
    assert b"dgm1." not in upstream.calls[0].body
    assert b'"text":"yes"' in upstream.calls[0].body


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.rule("R111")
def test_a_whole_reply_reaches_every_client_in_its_dialect(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_WHOLE], headers={"content-type": JSON}))
    outcome = run(Bench({"up": upstream}).run_exchange(ask(dialect, stream=False)))
    assert outcome.client.status == 200
    assert outcome.client.headers["content-type"] == JSON
    assert outcome.client.headers["content-length"] == str(len(outcome.client.body))
    assert "good day" in str(outcome.client.json())
    assert not upstream.calls[0].stream


def test_a_whole_reply_of_the_clients_own_dialect_is_forwarded_byte_for_byte() -> None:
    body = CHAT_WHOLE.replace(b'"created":5', b'"created": 5 ')
    upstream = ScriptedUpstream(Script(pieces=[body[:30], body[30:]], headers={"content-type": JSON}))
    outcome = run(Bench({"up": upstream}).run_exchange(ask("openai_chat", stream=False)))
    assert outcome.client.body == body
    assert outcome.record.tally is not None
    assert outcome.record.tally.usage is not None
    assert outcome.record.tally.usage.input == 12


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unrequested_stream_becomes_a_whole_reply(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    outcome = run(Bench({"up": upstream}).run_exchange(ask(dialect, stream=False)))
    assert outcome.client.headers["content-type"] == JSON
    assert "good day" in str(outcome.client.json())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_reply_where_a_stream_was_asked_for_becomes_a_stream(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_WHOLE], headers={"content-type": JSON}))
    outcome = run(Bench({"up": upstream}).run_exchange(ask(dialect)))
    assert outcome.client.headers["content-type"].startswith(SSE)
    assert dialect_named(dialect).check_stream(outcome.client.body) == []
    assert b"good day" in outcome.client.body


def test_an_array_is_made_of_the_chunks_of_a_stream() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    outcome = run(Bench({"up": upstream}).run_exchange(ask("gemini", as_array=True)))
    assert outcome.client.headers["content-type"] == JSON
    chunks = msgspec.json.decode(outcome.client.body)
    assert [text_of(chunk) for chunk in chunks[:2]] == ["good", " day"]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_the_elements_of_an_array_come_as_they_are_made() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    outcome = run(Bench({"up": upstream}).run_exchange(ask("gemini", as_array=True)))
    assert len(outcome.client.writes) > 2
    assert outcome.client.writes[0].startswith(b"[{")
    assert outcome.client.writes[1].startswith(b",\r\n{")


def test_an_array_of_forwarded_chunks_has_their_very_bytes() -> None:
    pieces = [gemini_text("good"), gemini_text(" day", "STOP").replace(b'"index":0', b'"index": 0')]
    bench = Bench({"up": ScriptedUpstream(Script(pieces=pieces))}, [provider("up", "gemini")])
    outcome = run(bench.run_exchange(ask("gemini", as_array=True)))
    assert outcome.client.body == b"[" + pieces[0][6:-2] + b",\r\n" + pieces[1][6:-2] + b"]"


@pytest.mark.rule("R136")
def test_a_reply_is_dated_when_it_begins() -> None:
    upstream = ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    outcome = run(Bench({"up": upstream}, [provider("up", "anthropic")]).run_exchange(ask("openai_chat")))
    assert b'"created":1800000000,' in outcome.client.body


def text_of(chunk: dict[str, list[dict[str, dict[str, list[dict[str, str]]]]]]) -> str:
    return "".join(part["text"] for part in chunk["candidates"][0]["content"]["parts"])


@pytest.mark.rule("H73")
def test_the_last_word_of_a_response_that_failed_may_come_in_a_piece_of_its_own() -> None:
    begun = RESPONSES_CREATED + event(
        {
            "type": "response.output_item.added",
            "sequence_number": 1,
            "output_index": 0,
            "item": {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            },
        }
    )
    part = event(
        {
            "type": "response.content_part.added",
            "sequence_number": 2,
            "item_id": "m",
            "output_index": 0,
            "content_index": 0,
            "part": {"type": "output_text", "text": "", "annotations": []},
        }
    )
    outcome = event({"type": "error", "sequence_number": 3, "code": "server_error", "message": "secret-key"})
    pieces = (begun + part, outcome, Wait(0.5), RESPONSES_FAILED)
    upstream = ScriptedUpstream(Script(pieces=pieces))
    up = provider("up", "openai_responses", retries=0, keys=["secret-key"])
    result = run(Bench({"up": upstream}, [up]).run_exchange(ask("openai_responses")))
    assert result.client.body.endswith(outcome.replace(b"secret-key", b"[redacted]") + RESPONSES_FAILED)
    assert result.client.is_ended
    assert result.record.ending == "failed"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json"])
def test_a_whole_reply_of_any_kind_becomes_the_stream_that_was_asked_for(kind: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_WHOLE], headers={"content-type": kind}))
    outcome = run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    assert dialect_named("openai_chat").check_stream(outcome.client.body) == []
    assert outcome.client.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.rule("H61")
def test_the_first_event_reports_about_how_long_the_prompt_is_and_a_picture_is_no_text() -> None:
    words = "Read the file and tell me what is wrong with it. " * 400
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBO" * 250_000}
    blocks = [{"type": "text", "text": words}, {"type": "image", "source": picture}]
    question = ask("anthropic")
    body = {"model": "claude-x", "stream": True, "max_tokens": 9}
    question.body = msgspec.json.encode({**body, "messages": [{"role": "user", "content": blocks}]})
    outcome = run(Bench({"up": ScriptedUpstream(Script(pieces=CHAT_STREAM))}).run_exchange(question))
    first = msgspec.json.decode(outcome.client.body.split(b"\n\n")[0].partition(b"data: ")[2])
    assert 4_800 < first["message"]["usage"]["input_tokens"] < 8_000


def has_usage(body: bytes) -> bool:
    return b'"prompt_tokens"' in body


@pytest.mark.rule("H61", "R112")
@pytest.mark.parametrize("options", [{}, {"include_usage": False}, {"include_obfuscation": False}])
@pytest.mark.parametrize("model", ["*", "other"], ids=["forwarded", "renamed"])
def test_usage_is_asked_for_and_kept_from_a_chat_client_that_did_not_ask(
    model: str, options: dict[str, bool]
) -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    outcome = run(
        Bench({"up": upstream}, model=model).run_exchange(
            ask("openai_chat", body={"stream_options": options})
        )
    )
    sent = msgspec.json.decode(upstream.calls[0].body)
    assert sent["stream_options"] == {**options, "include_usage": True}
    assert outcome.record.tally is not None
    assert outcome.record.tally.usage is not None
    assert outcome.record.tally.usage.input == 12
    assert not has_usage(outcome.client.body)
    assert dialect_named("openai_chat").check_stream(outcome.client.body) == []


@pytest.mark.rule("H61")
@pytest.mark.parametrize("size", [1, 10_000])
def test_usage_is_kept_from_the_client_however_the_stream_is_cut(size: int) -> None:
    stream = b"".join(CHAT_STREAM)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    question = ask("openai_chat", body={"stream_options": {}})
    outcome = run(Bench({"up": ScriptedUpstream(Script(pieces=pieces))}).run_exchange(question))
    assert outcome.client.body == stream.replace(CHAT_STREAM[4], b"")


def test_a_server_that_does_not_know_how_is_not_asked_for_usage() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    simple = msgspec.structs.replace(provider("up"), models={"*": {"stream_usage": False}})
    run(Bench({"up": upstream}, [simple]).run_exchange(ask("openai_chat", body={"stream_options": {}})))
    assert msgspec.json.decode(upstream.calls[0].body)["stream_options"] == {}


def test_a_whole_reply_reports_its_usage_unasked() -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_WHOLE], headers={"content-type": JSON}))
    question = ask("openai_chat", stream=False)
    sent = question.body
    outcome = run(Bench({"up": upstream}).run_exchange(question))
    assert upstream.calls[0].body == sent
    assert has_usage(outcome.client.body)
