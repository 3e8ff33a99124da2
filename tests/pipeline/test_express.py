"""The express path of lone text deltas gives the same output as the ordinary way."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Governance, StreamTranslator
from dragoman.pipeline.express import ExpressPath
from tests.dialects.openai_chat.replies import DONE, call, calls, chunk, finish
from tests.pipeline.asking import DIALECTS, asking

#: Writers that take part in the express path.
SHORT = ("anthropic", "openai_chat")

TEXTS = st.text(max_size=6) | st.sampled_from(
    ["a", "usage", "text", "\n", '"', "\\", "\x00", "\x7f", "\u2028", "é\U0001f600", "</b>", "/"]
)
CITATION = {
    "type": "url_citation",
    "url_citation": {"url": "https://a", "title": "t", "start_index": 0, "end_index": 1},
}
OTHERS = st.sampled_from(
    [
        chunk({"annotations": [CITATION]}),
        chunk({"refusal": "No."}),
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "raw"}).replace(b'"raw"', b'"\\u0041\\/"'),
        chunk({"content": "raw"}).replace(b'"raw"', b'"\xff"'),
        chunk({"content": "x"}, logprobs={"content": [{"token": "x", "logprob": -1.0, "bytes": None}]}),
        calls(call(0, id="c0", name="Read", arguments='{"path":"a"}')),
        b": ping\n\n",
        finish("stop"),
    ]
)
EVENTS = st.lists(st.one_of(*[TEXTS.map(lambda text: chunk({"content": text}))] * 4, OTHERS), max_size=14)


@contextmanager
def closed() -> Iterator[None]:
    """Every event takes the ordinary way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExpressPath, "learn", lambda *_: None)
        yield


def translate(client: str, governance: Governance, events: list[bytes]) -> bytes:
    translator = StreamTranslator(
        source="openai_chat",
        target=client,
        request=asking(client, tools=["Read"]),
        model="m",
        governance=governance,
    )
    return b"".join(map(translator.feed, events)) + translator.close()


@pytest.mark.parametrize("client", DIALECTS)
@given(events=EVENTS, harvest=st.sampled_from(["off", "auto"]), is_cut=st.booleans())
def test_the_express_path_changes_nothing(
    client: str, events: list[bytes], harvest: str, is_cut: bool
) -> None:
    stream = [chunk({"role": "assistant", "content": ""}), *events]
    # Without usage of the upstream the writers guess it from the characters.
    stream += [] if is_cut else [finish("stop"), DONE]
    governance = Governance(harvest="auto") if harvest == "auto" else Governance()
    with closed():
        expected = translate(client, governance, stream)
    assert translate(client, governance, stream) == expected


@pytest.mark.parametrize("client", SHORT)
def test_texts_like_the_one_before_take_the_express_path(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bytes] = []
    ordinary = ExpressPath.translate

    def translate_and_note(path: ExpressPath, data: bytes) -> bytes | None:
        translated = ordinary(path, data)
        if translated is not None:
            taken.append(data)
        return translated

    monkeypatch.setattr(ExpressPath, "translate", translate_and_note)
    deltas = [chunk({"content": text}) for text in ("one", "two", "three", 'fo"ur\n', "é")]
    translate(client, Governance(), [chunk({"role": "assistant"}), *deltas, finish("stop"), DONE])
    assert taken == deltas[-len(taken) :]
    assert len(taken) >= 3
