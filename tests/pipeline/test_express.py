"""The express path of lone text deltas gives the same output as the ordinary way."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Governance, StreamTranslator
from dragoman.pipeline.express import ExpressPath
from dragoman.wire.sse import Output, RawEvents
from tests.dialects.gemini import replies as gemini
from tests.dialects.openai_chat.replies import DONE, call, calls, chunk, finish
from tests.pipeline.asking import DIALECTS, asking, declared

#: Writers that put a text between the bytes around the last one; the others write every text as a delta.
SHORT = ("anthropic", "openai_chat", "gemini")
#: The declaration of the vendor's search. The Gemini writer keeps texts that a search may cite.
SEARCH: dict[str, list[object]] = {
    "anthropic": [{"type": "web_search_20250305", "name": "web_search"}],
    "openai_chat": [],
    "openai_responses": [{"type": "web_search"}],
    "gemini": [{"googleSearch": {}}],
}

TEXTS = st.text(max_size=6) | st.sampled_from(
    [
        "a",
        "usage",
        "text",
        "\n",
        '"',
        "\\",
        "\x00",
        "\x7f",
        "\u2028",
        "é\U0001f600",
        "</b>",
        "/",
        "a\n",
        "- ",
        "<tool_call>",
        "```",
    ]
)
CITATION = {
    "type": "url_citation",
    "url_citation": {"url": "https://a", "title": "t", "start_index": 0, "end_index": 3},
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
        patch.setattr(ExpressPath, "learn", lambda *_, **__: None)
        yield


def translate(client: str, governance: Governance, events: list[bytes], *, searches: bool = False) -> bytes:
    request = asking(client)
    request["tools"] = [*declared(client, ["Read"]), *(SEARCH[client] if searches else [])]
    translator = StreamTranslator(
        source="openai_chat", target=client, request=request, model="m", governance=governance
    )
    return b"".join(map(translator.feed, events)) + translator.close()


def test_citations_of_gemini_keep_their_places() -> None:
    texts = ["one", " two é", " thrée", " four", " five"]
    end = len("".join(texts).encode())
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a", "title": "t"}}],
        "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": end}, "groundingChunkIndices": [0]}],
    }
    request = {**asking("openai_chat"), "web_search_options": {}}
    translator = StreamTranslator(source="gemini", target="openai_chat", request=request, model="m")
    stream = [gemini.chunk({"text": text}) for text in texts]
    stream.append(gemini.chunk({"text": ""}, finishReason="STOP", groundingMetadata=grounding))
    sent = b"".join(map(translator.feed, stream)) + translator.close()
    assert b'"start_index":0,"end_index":%d' % len("".join(texts)) in sent


@pytest.mark.parametrize("text", ["text", "text_delta", "a"])
def test_a_text_that_a_stage_has_extended_is_not_learned(text: str) -> None:
    """A held line break stands before the text, so that the text may occur as a name in the output alone."""
    citation = {"type": "url_citation", "url_citation": {"url": "https://a", "title": "t"}}
    stream = [chunk({"role": "assistant", "content": ""}), chunk({"content": "\n"})]
    stream += [chunk({"annotations": [citation]}), chunk({"content": text}), chunk({"content": "a"})]
    stream += [finish("stop"), DONE]
    governance = Governance(harvest="auto")
    with closed():
        expected = translate("anthropic", governance, stream)
    assert translate("anthropic", governance, stream) == expected


@pytest.mark.parametrize("client", DIALECTS)
@given(events=EVENTS, harvest=st.sampled_from(["off", "auto"]), is_cut=st.booleans(), searches=st.booleans())
def test_the_express_path_changes_nothing(
    client: str, events: list[bytes], harvest: str, is_cut: bool, searches: bool
) -> None:
    stream = [chunk({"role": "assistant", "content": ""}), *events]
    # Without usage of the upstream the writers guess it from the characters.
    stream += [] if is_cut else [finish("stop"), DONE]
    governance = Governance(harvest="auto") if harvest == "auto" else Governance()
    with closed():
        expected = translate(client, governance, stream, searches=searches)
    assert translate(client, governance, stream, searches=searches) == expected


@pytest.mark.parametrize("searches", [False, True])
def test_citations_after_the_express_path_have_their_bytes(searches: bool) -> None:
    """Gemini counts bytes, over all texts that the client joins."""
    texts = [chunk({"content": text}) for text in ("one", " two", " three", " é", " four")]
    thought = chunk({"reasoning_content": "Hm."})
    cited = chunk({"annotations": [CITATION]})
    stream = [chunk({"role": "assistant"}), *texts, thought, *texts, cited, finish("stop"), DONE]
    with closed():
        expected = translate("gemini", Governance(), stream, searches=searches)
    assert b"groundingSupports" in expected
    assert translate("gemini", Governance(), stream, searches=searches) == expected


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
@pytest.mark.parametrize("governance", [Governance(), Governance(tools="hold", harvest="auto", rename=True)])
@pytest.mark.parametrize("client", DIALECTS)
def test_texts_like_the_one_before_take_the_express_path(
    client: str, governance: Governance, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bytes] = []
    joined: list[bytes] = []
    ordinary = ExpressPath.translate

    def translate_and_note(path: ExpressPath, data: bytes) -> Output | None:
        translated = ordinary(path, data)
        if translated is not None:
            taken.append(data)
        if isinstance(translated, RawEvents):
            joined.append(data)
        return translated

    monkeypatch.setattr(ExpressPath, "translate", translate_and_note)
    deltas = [chunk({field: text}) for text in ("one", "two", "three", "fo\\ur\t", "é")]
    translate(client, governance, [chunk({"role": "assistant"}), *deltas, finish("stop"), DONE])
    assert taken == deltas[-len(taken) :]
    assert len(taken) >= 3
    outside_ascii = 1 if client == "gemini" else 0
    is_joined = client in SHORT and field == "content"
    assert len(joined) == (len(taken) - outside_ascii if is_joined else 0)
