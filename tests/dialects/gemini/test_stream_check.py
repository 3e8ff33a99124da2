"""The judge finds what the strictest readers of Gemini streams would refuse, and nothing else."""

import pytest

from dragoman.dialects.gemini import DIALECT
from tests.dialects.gemini.replies import chunk, frame, recorded, stems

END = chunk({"text": "a"}, finishReason="STOP")
CUT = "the stream ends without finishReason, blockReason or error"
NOT_ONE_LINE = "a frame is not one line `data: …` and a blank line"


def messages(stream: bytes) -> list[str]:
    return [violation.message for violation in DIALECT.check_stream(stream)]


@pytest.mark.parametrize("stem", [stem for stem in stems("stream-", ".sse") if stem != "cut"])
def test_recorded_streams_are_legal(stem: str) -> None:
    assert DIALECT.check_stream(recorded(f"stream-{stem}.sse")) == []


def test_a_stream_that_was_cut_is_not() -> None:
    assert messages(recorded("stream-cut.sse")) == [CUT]


@pytest.mark.rule("H75", "H76", "H77", "H78")
@pytest.mark.parametrize(
    "line",
    [
        b": keep-alive\n\n",
        b"event: message\ndata: {}\n\n",
        b"data:{}\n\n",
        b"data: {}\ndata: {}\n\n",
        b"\n\n",
    ],
)
def test_anything_but_single_data_lines_is_refused(line: bytes) -> None:
    assert NOT_ONE_LINE in messages(line + END)


@pytest.mark.rule("H77")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"data: [DONE]\n\n", "the payload is not JSON"),
        (b"data: [1]\n\n", "the payload is an array, not an object"),
        (b"data: {\n\n", "the payload is not JSON"),
    ],
)
def test_payloads_that_are_no_objects_are_refused(line: bytes, message: str) -> None:
    assert message in messages(line + END)


def test_a_frame_without_its_blank_line_is_refused() -> None:
    assert messages(END.rstrip(b"\n")) == [NOT_ONE_LINE, CUT]


def test_a_raw_line_separator_is_refused() -> None:
    stream = END.replace(b'"a"', '"a\u2028"'.encode())
    assert messages(stream) == ["a raw line separator inside a line"]


def test_an_empty_stream_is_refused() -> None:
    assert messages(b"") == ["an empty stream"]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({}, "a part with 0 kinds of data"),
        ({"text": "a", "functionCall": {}}, "a part with 2 kinds of data"),
        ({"text": 5}, "text has a wrong value (a number)"),
        ({"text": "a", "thought": "yes"}, "thought has a wrong value (a string)"),
        ({"text": "a", "thoughtSignature": "*"}, "thoughtSignature has a wrong value (a string)"),
        ({"text": "a", "thoughtSignature": 5}, "thoughtSignature has a wrong value (a number)"),
        ({"functionCall": {"args": {}}}, "a call without a name"),
        ({"functionCall": {"name": "", "args": {}}}, "functionCall.name has a wrong value (a string)"),
        ({"functionCall": {"name": "a", "args": "{}"}}, "functionCall.args has a wrong value (a string)"),
        ({"functionCall": {"name": "a", "id": 5}}, "functionCall.id has a wrong value (a number)"),
        ({"inlineData": {"mimeType": "image/png"}}, "inlineData.data is missing"),
        ({"executableCode": {"code": "1"}}, "executableCode.language is missing"),
    ],
)
def test_parts_must_be_well_formed(part: object, message: str) -> None:
    assert messages(chunk(part) + END) == [message]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"candidates": {}}, "candidates has a wrong value (an object)"),
        ({"candidates": [5]}, "candidates is not a list of objects"),
        ({"candidates": [{"index": "0"}]}, "index has a wrong value (a string)"),
        ({"candidates": [{"content": []}]}, "content has a wrong value (an array)"),
        ({"candidates": [{"content": {"parts": []}}]}, "content.role is missing"),
        (
            {"candidates": [{"content": {"role": "model", "parts": {}}}]},
            "content.parts is not a list of objects",
        ),
        (
            {"usageMetadata": {"promptTokenCount": -1}},
            "usageMetadata.promptTokenCount has a wrong value (a number)",
        ),
        ({"modelVersion": 5}, "modelVersion has a wrong value (a number)"),
    ],
)
def test_chunks_must_be_well_formed(payload: object, message: str) -> None:
    assert messages(frame(payload) + END) == [message]


def test_an_id_may_be_used_once() -> None:
    call = {"functionCall": {"id": "c1", "name": "a", "args": {}}}
    assert messages(chunk(call, call) + END) == ["functionCall.id is used twice"]


def test_a_call_in_pieces_must_come_to_its_end() -> None:
    begun = {"functionCall": {"name": "a", "willContinue": True}}
    assert messages(chunk(begun) + chunk({"functionCall": {}}) + END) == []
    assert messages(chunk(begun) + END) == ["the stream ends inside a call"]
    assert messages(chunk(begun, {"functionCall": {"name": "b"}}) + END) == ["a call inside a call"]


def test_nothing_follows_the_finish_reason() -> None:
    assert messages(END + chunk({"text": "late"})) == ["a candidate continues after its finishReason"]


def test_finish_reasons_are_those_of_the_api() -> None:
    assert messages(chunk({"text": "a"}, finishReason="end_turn")) == [
        "finishReason has a wrong value (a string)"
    ]


@pytest.mark.rule("H72")
def test_an_error_is_the_last_word() -> None:
    error = frame({"error": {"code": 500, "message": "No.", "status": "INTERNAL"}})
    assert messages(chunk({"text": "a"}) + error) == []
    assert messages(error + END) == ["chunk is not allowed in state DONE"]
    assert messages(frame({"error": {"code": "500"}})) == [
        "error.code has a wrong value (a string)",
        "error.message is missing",
        "error.status is missing",
    ]
    assert messages(frame({"error": "No."})) == ["error has a wrong value (a string)"]


def test_violations_name_the_frame() -> None:
    assert [violation.frame for violation in DIALECT.check_stream(END + frame([1]))] == [2]
