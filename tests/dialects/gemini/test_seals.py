"""Seals of other vendors go out with a call and come back with it, whatever the client forgets."""

import base64

import pytest

from dragoman.dialects.gemini import DIALECT
from dragoman.dialects.gemini.reasoning import SENTINEL, decode_envelope, encode_envelope
from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.blocks import AnyBlock, Reasoning, ReplyBlock, Text, ToolCall
from dragoman.hub.events import ReplyFinished, ReplyStarted
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.loss import Losses
from dragoman.hub.seal import Seal, SealedItem, write_envelope
from tests.dialects.gemini.replies import NATIVE, asked, model, parts_of, sent, user, write

Part = dict[str, object]

THINKING = Seal("anthropic", "claude", "c2VhbGVkIHRob3VnaHQ=")
ENCRYPTED = Seal("openai_responses", "gpt", "gAAAA")
OWN = Seal("gemini", "", "b3du")
CALL = ToolCall(id="c1", name="run", arguments='{"a":1}')


def parts(*blocks: ReplyBlock) -> list[Part]:
    calls = any(isinstance(block, ToolCall) for block in blocks)
    ending = ReplyFinished(cause="tool_calls" if calls else "end")
    stream = write(unfold(Reply(started=ReplyStarted(id="r1"), blocks=blocks, ending=ending)))
    assert DIALECT.check_stream(stream) == []
    return parts_of(stream)


def remembered(*history: Part, losses: Losses | None = None) -> list[AnyBlock]:
    """What is read when the client sends these parts back, without the places where they stood."""
    request = asked({"contents": [user({"text": "hi"}), model(*history)]}, losses)
    return [_plain(block) for block in request.messages[1].blocks]


def _plain(block: AnyBlock) -> AnyBlock:
    match block:
        case Reasoning():
            return Reasoning(parts=block.parts, seal=block.seal, redacted=block.redacted)
        case ToolCall():
            return ToolCall(id=block.id, name=block.name, arguments=block.arguments, seal=block.seal)
        case Text():
            return Text(text=block.text, seal=block.seal)
        case _:
            return block


def as_gemini_cli_keeps(history: list[Part]) -> list[Part]:
    """Gemini CLI drops thoughts, and signatures of anything but calls."""
    kept = [part for part in history if not part.get("thought") and part.get("text") != ""]
    return [
        part if "functionCall" in part else {key: part[key] for key in part if key != "thoughtSignature"}
        for part in kept
    ]


@pytest.mark.rule("H1", "H6")
def test_a_foreign_thought_comes_back_through_a_client_that_drops_thoughts() -> None:
    thought, text = Reasoning(parts=("hm", "so"), seal=THINKING), Text(text="I will look.")
    history = parts(thought, text, CALL)
    assert remembered(*as_gemini_cli_keeps(history)) == [thought, text, CALL]


@pytest.mark.rule("H1", "H6")
def test_a_foreign_thought_comes_back_once_through_a_client_that_echoes_thoughts() -> None:
    thought, text = Reasoning(parts=("hm", "so"), seal=THINKING), Text(text="I will look.")
    assert remembered(*parts(thought, text, CALL)) == [thought, text, CALL]


@pytest.mark.rule("H7")
def test_a_thought_without_a_seal_comes_back_with_the_call_it_led_to() -> None:
    thought = Reasoning(parts=("hm",))
    assert remembered(*as_gemini_cli_keeps(parts(thought, CALL))) == [thought, CALL]


@pytest.mark.rule("H3")
def test_a_redacted_thought_travels_and_is_never_shown() -> None:
    thought = Reasoning(redacted=True, seal=THINKING)
    history = parts(thought, CALL)
    assert [part for part in history if part.get("thought")] == []
    assert remembered(*history) == [thought, CALL]


@pytest.mark.rule("H4")
def test_several_thoughts_and_the_call_s_own_seal_share_one_envelope() -> None:
    first, second = Reasoning(seal=ENCRYPTED), Reasoning(parts=("b",), seal=THINKING)
    sealed = ToolCall(id="c1", name="run", arguments="{}", seal=ENCRYPTED)
    assert remembered(*as_gemini_cli_keeps(parts(first, second, sealed))) == [first, second, sealed]


@pytest.mark.rule("H8")
def test_thoughts_between_calls_stay_between_them() -> None:
    blocks: list[ReplyBlock] = [
        Reasoning(parts=("a",), seal=THINKING),
        ToolCall(id="c1", name="run", arguments="{}"),
        Reasoning(parts=("b",), seal=THINKING),
        ToolCall(id="c2", name="run", arguments="{}"),
    ]
    assert remembered(*as_gemini_cli_keeps(parts(*blocks))) == blocks


@pytest.mark.rule("H6")
def test_without_a_call_the_seal_goes_out_on_an_empty_text_at_the_end() -> None:
    thought, text = Reasoning(parts=("hm",), seal=THINKING), Text(text="Hello.")
    history = parts(thought, text)
    # The client joins the empty text with the one before.
    assert history[-1]["text"] == "Hello."
    assert "thoughtSignature" in history[-1]
    assert remembered(*history) == [thought, text]


def test_a_thought_without_a_seal_and_without_a_call_needs_no_envelope() -> None:
    history = parts(Reasoning(parts=("hm",)), Text(text="Hello."))
    assert history == [{"text": "hm", "thought": True}, {"text": "Hello."}]


def test_a_seal_on_a_text_comes_back_onto_the_text() -> None:
    text = Text(text="Hello.", seal=ENCRYPTED)
    assert remembered(*parts(text, CALL)) == [text, CALL]


@pytest.mark.rule("H6")
def test_gemini_s_own_seals_stay_on_their_parts() -> None:
    history = parts(Text(text="a", seal=OWN), ToolCall(id="c1", name="run", seal=OWN))
    assert history == [
        {"text": "a", "thoughtSignature": "b3du"},
        {"functionCall": {"id": "c1", "name": "run", "args": {}}, "thoughtSignature": "b3du"},
    ]


def test_an_own_seal_that_is_no_base64_travels_in_an_envelope() -> None:
    blocks = [ToolCall(id="c1", name="run", arguments="{}", seal=Seal("gemini", "", "not base64"))]
    assert remembered(*parts(*blocks)) == blocks


def test_an_own_seal_after_foreign_thoughts_travels_in_the_envelope() -> None:
    blocks: list[ReplyBlock] = [
        Reasoning(parts=("a",), seal=THINKING),
        ToolCall(id="c1", name="run", arguments="{}", seal=OWN),
    ]
    assert remembered(*as_gemini_cli_keeps(parts(*blocks))) == blocks


@pytest.mark.rule("H6")
def test_an_envelope_is_base64_in_any_alphabet() -> None:
    (part,) = parts(ToolCall(id="c1", name="run", seal=ENCRYPTED))
    signature = part["thoughtSignature"]
    assert isinstance(signature, str)
    assert base64.b64decode(signature, validate=True).startswith(b"dgm1.")
    assert not {*signature} & {*"+/-_"}


def test_an_envelope_is_read_with_and_without_base64_and_padding() -> None:
    items = (SealedItem(kind="call", seal=ENCRYPTED, call_id="c1"),)
    for signature in (write_envelope(items), encode_envelope(items), encode_envelope(items).rstrip("=")):
        assert decode_envelope(signature) == items


@pytest.mark.parametrize("damage", ["ZGdtMS4AAAA", "ZGdtMS4*", "dgm1.AAAA", "ZGdtMS4"])
def test_a_damaged_envelope_is_no_seal_and_a_loss(damage: str) -> None:
    losses = Losses()
    call: Part = {"functionCall": {"id": "c1", "name": "run", "args": {"a": 1}}, "thoughtSignature": damage}
    assert remembered(call, losses=losses) == [CALL]
    assert [loss.path for loss in losses] == ["contents[1].parts[0]"]


@pytest.mark.rule("H6", "H44")
def test_a_call_that_gemini_never_made_gets_the_sentinel_on_its_way_to_gemini() -> None:
    history = parts(Reasoning(parts=("a",), seal=THINKING), CALL)
    request = asked({"contents": [user({"text": "hi"}), model(*as_gemini_cli_keeps(history))]})
    body = sent(request, NATIVE)
    assert body["contents"] == [
        user({"text": "hi"}),
        model(
            {"text": "a", "thought": True},
            {"functionCall": {"id": "c1", "name": "run", "args": {"a": 1}}, "thoughtSignature": SENTINEL},
        ),
    ]


def test_seals_that_an_upstream_of_another_name_issued_are_wrapped_too() -> None:
    seal = Seal("vertex", "", "dg==")
    reply = Reply(
        started=ReplyStarted(id="r1"),
        blocks=(Reasoning(parts=("a",), seal=seal), CALL),
        ending=ReplyFinished(cause="tool_calls"),
    )
    history = parts_of(write(unfold(reply), ClientContext(upstream="gemini")))
    assert remembered(*history) == [Reasoning(parts=("a",), seal=seal), CALL]


def test_envelopes_cannot_bring_back_more_than_a_request_may_hold() -> None:
    thought = SealedItem(kind="reasoning", seal=THINKING, parts=("a" * 8_000_000,))
    call: Part = {"functionCall": {"name": "run", "args": {}}, "thoughtSignature": encode_envelope([thought])}
    losses = Losses()
    blocks = remembered(*[call] * 20, losses=losses)
    assert sum(len(block.text) for block in blocks if isinstance(block, Reasoning)) <= 80_000_000
    assert len(losses) > 0


def test_an_envelope_on_an_empty_text_leaves_no_text_behind() -> None:
    thought = Reasoning(parts=("hm",), seal=THINKING)
    carried = SealedItem(kind="reasoning", seal=THINKING, parts=("hm",))
    assert remembered({"text": "", "thoughtSignature": encode_envelope([carried])}) == [thought]


def test_an_envelope_without_words_takes_them_from_the_thought_it_came_on() -> None:
    carried = SealedItem(kind="reasoning", seal=THINKING)
    part: Part = {"text": "hm", "thought": True, "thoughtSignature": encode_envelope([carried])}
    assert remembered(part) == [Reasoning(parts=("hm",), seal=THINKING)]


def test_a_seal_for_a_text_that_is_gone_is_forgotten() -> None:
    envelope = encode_envelope([SealedItem(kind="text", seal=ENCRYPTED)])
    call: Part = {"functionCall": {"id": "c1", "name": "run", "args": {"a": 1}}, "thoughtSignature": envelope}
    assert remembered({"text": "a"}, call, call)[2:] == [CALL]
    assert remembered(call) == [CALL]
