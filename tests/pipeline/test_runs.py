"""Runs of similar chunks are read, checked and written as a whole. The client must not see the difference."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Governance, StreamTranslator
from tests.dialects.openai_chat.replies import DONE, call, calls, chunk, finish
from tests.pipeline.asking import DIALECTS, asking

GOVERNANCE = (
    Governance(),
    Governance(tools="hold"),
    Governance(tools="auto"),
    Governance(tools="hold", hold_bytes=40),
    Governance(tools="hold", harvest="auto", rename=True, dedupe=True),
    Governance(tools="auto", harvest="auto", rename=True, validate=True),
)

TEXTS = st.lists(
    st.sampled_from(
        [
            *["a", "one ", "é", "\u2028", "\n", '"', "\\", "<tool", "_call>", '{"name":', "</tool_call>", ""],
            *["- b\n", "\n\n", "```", "c d", "[", "{"],
        ]
    ),
    max_size=24,
)
ARGUMENTS = st.lists(
    st.sampled_from(
        ['{"path":', ' "a', "b", "\\", "n", 'c"', "}", " ", ',"x":[1,', "2]", "}}", "u00e9", "'"]
    ),
    max_size=12,
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """A reply of thoughts, text and calls, each in many chunks that differ only in their text."""
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"reasoning_content": text}) for text in draw(TEXTS)]
    chunks += [chunk({"content": text}) for text in draw(TEXTS)]
    for index in range(draw(st.integers(0, 2))):
        chunks.append(calls(call(index, id=f"c{index}", name="Read", arguments="")))
        arguments = draw(st.just(['{"path"', ':"', *"a long path", '"', "}"]) | ARGUMENTS)
        chunks += [calls(call(index, arguments=text)) for text in arguments]
    return [*chunks, finish(draw(st.sampled_from(["tool_calls", "stop", "length"]))), DONE]


def translate(
    client: str, governance: Governance, reads: list[bytes]
) -> tuple[bytes, list[tuple[str, str, int]]]:
    request = asking(client, tools=["Read"])
    translator = StreamTranslator(
        source="openai_chat", target=client, request=request, model="m", governance=governance
    )
    out = b"".join(map(translator.feed, reads)) + translator.close()
    return out, [(each.kind, each.tool, each.after) for each in translator.interventions]


@pytest.mark.rule("R59", "H76")
@pytest.mark.parametrize("client", DIALECTS)
@settings(max_examples=60)
@given(streams(), st.sampled_from(GOVERNANCE), st.integers(1, 2000))
def test_a_run_of_chunks_is_written_as_each_chunk_alone(
    client: str, chunks: list[bytes], governance: Governance, size: int
) -> None:
    alone = translate(client, governance, chunks)
    whole = b"".join(chunks)
    assert translate(client, governance, [whole]) == alone
    assert (
        translate(client, governance, [whole[at : at + size] for at in range(0, len(whole), size)]) == alone
    )
