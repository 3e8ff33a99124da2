"""The recordings are as their README describes them: well-formed, our own, and complete where they claim it.

They are checked here against the specifications alone, without the code that they are meant to test.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

FOLDER = Path(__file__).parent
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
JSON_FILES = sorted(FOLDER.glob("*/*.json"))
REQUESTS = sorted(FOLDER.glob("*/request-*.json"))
STREAMS = sorted(FOLDER.glob("*/stream-*.sse"))
ERRORS = sorted(FOLDER.glob("*/error-*.json"))
CUT_OR_ODD = re.compile(r"stream-(cut|failed|quirk)")
WHOLE_STREAMS = [path for path in STREAMS if not CUT_OR_ODD.match(path.name)]
PAIRS = [
    (reply, reply.with_name(reply.name.replace("reply-", "stream-", 1)).with_suffix(".sse"))
    for reply in sorted(FOLDER.glob("*/reply-*.json"))
]
# An absolute path that is not the made-up one, an address on a machine, a key that is not the made-up one.
TRACES = re.compile(
    r"(?<![\w:/.*<+=-])/(?!home/user\b|v1/|v1beta/)[a-zA-Z]+/|127\.0\.0\.1|localhost|\bsk-(?!recording|0000)\w"
)
ID_KEYS = {"anthropic": "id", "openai_chat": "id", "openai_responses": "id", "gemini": "responseId"}


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def frames(path: Path) -> list[tuple[str | None, Any]]:
    """The frames of a stream as (event name, data); `[DONE]` stays text."""
    found = []
    for frame in path.read_text("utf-8").replace("\r\n", "\n").removesuffix("\n\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n"))
        data = lines["data"]
        found.append((lines.get("event"), data if data == "[DONE]" else msgspec.json.decode(data)))
    return found


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)


@pytest.mark.parametrize("path", JSON_FILES, ids=named)
def test_every_recording_is_readable_json_that_ends_in_one_newline(path: Path) -> None:
    text = path.read_bytes()
    msgspec.json.decode(text, strict=True)
    assert text.endswith(b"\n")
    assert not text.endswith(b"\n\n")
    assert len(text) < 60_000


@pytest.mark.parametrize("path", JSON_FILES, ids=named)
def test_no_recording_reports_the_machine_it_was_made_on(path: Path) -> None:
    assert TRACES.search(path.read_text("utf-8")) is None


@pytest.mark.parametrize("path", REQUESTS, ids=named)
def test_a_request_names_sender_content_and_place(path: Path) -> None:
    recording = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    assert list(recording) == ["about", "client", "path", "headers", "body"]
    assert recording["path"].startswith(("/v1/", "/v1beta/"))
    assert re.fullmatch(r"[a-z-]+ \d+\.\d+\.\d+", recording["client"])
    assert isinstance(recording["body"], dict)


@pytest.mark.parametrize("path", REQUESTS, ids=named)
def test_no_request_holds_prose_longer_than_our_own(path: Path) -> None:
    body = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["body"]
    assert all(len(text.split()) <= 16 for text in strings(body))


@pytest.mark.parametrize("path", ERRORS, ids=named)
def test_an_error_has_a_failing_status_and_states_so_in_its_body(path: Path) -> None:
    recording = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    assert list(recording) == ["status", "headers", "body"]
    assert 400 <= recording["status"] < 600
    assert recording["body"]["error"]["message"]


@pytest.mark.parametrize(("reply", "stream"), PAIRS, ids=[named(reply) for reply, _ in PAIRS])
def test_a_whole_reply_and_its_stream_carry_the_same_id(reply: Path, stream: Path) -> None:
    dialect = reply.parent.name
    whole = msgspec.json.decode(reply.read_bytes(), type=dict[str, Any])
    _, first = frames(stream)[0]
    head = first.get("message") or first.get("response") or first
    assert head[ID_KEYS[dialect]] == whole[ID_KEYS[dialect]]


def whole_streams(dialect: str) -> list[Path]:
    return [path for path in WHOLE_STREAMS if path.parent.name == dialect]


@pytest.mark.parametrize("path", whole_streams("anthropic"), ids=named)
def test_an_anthropic_stream_opens_and_closes_its_blocks_one_by_one(path: Path) -> None:
    events = frames(path)
    assert all(name == data["type"] for name, data in events)
    assert [data["type"] for _, data in events[-2:]] == ["message_delta", "message_stop"]
    is_open, count = False, 0
    for name, data in events:
        match name:
            case "content_block_start":
                assert (is_open, data["index"]) == (False, count)
                is_open = True
            case "content_block_delta":
                assert (is_open, data["index"]) == (True, count)
            case "content_block_stop":
                assert (is_open, data["index"]) == (True, count)
                is_open, count = False, count + 1
    assert not is_open


@pytest.mark.parametrize("path", whole_streams("openai_chat"), ids=named)
def test_a_chat_stream_finishes_each_choice_once_then_counts_and_ends(path: Path) -> None:
    *chunks, (_, done) = frames(path)
    assert done == "[DONE]"
    assert all(name is None for name, _ in chunks)
    choices = [choice for _, chunk in chunks for choice in chunk["choices"]]
    finished = [choice["index"] for choice in choices if choice["finish_reason"]]
    assert finished == sorted({choice["index"] for choice in choices})
    assert [chunk["usage"] is not None for _, chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for _, chunk in chunks}) == 1


@pytest.mark.parametrize("path", whole_streams("openai_responses"), ids=named)
def test_a_responses_stream_counts_its_events_and_ends_with_all_its_items(path: Path) -> None:
    events = frames(path)
    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    done = [data["item"] for name, data in events if name == "response.output_item.done"]
    name, last = events[-1]
    assert name == f"response.{last['response']['status']}"
    assert last["response"]["output"] == done


@pytest.mark.parametrize("path", whole_streams("gemini"), ids=named)
def test_a_gemini_stream_has_nothing_but_data_and_ends_with_a_reason(path: Path) -> None:
    chunks = frames(path)
    assert all(name is None and isinstance(data, dict) for name, data in chunks)
    last = chunks[-1][1]
    endings = [candidate.get("finishReason") for candidate in last.get("candidates", [])]
    assert any(endings) or last["promptFeedback"]["blockReason"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_has_requests_replies_streams_and_errors(dialect: str) -> None:
    for kind in ("request-*.json", "reply-*.json", "stream-*.sse", "error-*.json"):
        assert len(list((FOLDER / dialect).glob(kind))) >= 4
