"""What the library is fuzzed with before anything is damaged: recorded, golden and generated traffic.

Everything is read or generated once per process, in a fixed order: a seed always names the same input.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec

from dragoman.dialects.interfaces import ClientContext
from dragoman.dialects.registry import dialect_named
from dragoman.governance.settings import Governance, read_governance
from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReasoningDelta,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    StopCause,
    TextDelta,
    UsageReported,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.usage import Usage
from tests.cases.case_file import HERE as CASES
from tests.cases.case_file import case_files, given_bytes, read_case
from tests.cases.run import GEMINI_MODEL, is_stream, upstream_of
from tests.sse import write_sse

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
GENERATED = 40
#: Larger recordings take most of the time and show nothing that smaller ones do not.
LARGEST_STREAM = 16_000
LARGEST_REQUEST = 20_000

ARGUMENTS = (
    '{"file_path":"notes.txt"}',
    '{"file_path":"a \\"b\\" \\\\ c","limit":5}',
    '{"file_path":"x","old_string":"{\\"a\\": [1, 2","new_string":"}\\n"}',
    "{}",
    "",
    '{"file_path":"é\\u2028😀","deep":{"list":[1,2.5,null,true,{"a":"b"}]}}',
    '{"file_path": "half',
    "no JSON at all",
    "[1]",
)
TEXTS = ("Hi.", " there\n\n", '{"a":', "<tool_call>", "é😀", "data: x\n\n", "```json\n", " ")
NAMES = ("Read", "Edit", "read", "unknown_tool")
CAUSES: tuple[StopCause, ...] = ("end", "end", "length", "stop_sequence", "content_filter")

#: Texts of models that write their calls as text, for the harvest.
CALLS_AS_TEXT = (
    '<tool_call>\n{"name": "Read", "arguments": {"file_path": "notes.txt"}}\n</tool_call>',
    '<function=Read>{"file_path": "notes.txt"}</function>',
    '[TOOL_CALLS][{"name": "Read", "arguments": {"file_path": "a"}}]',
    '```json\n{"name": "Read", "arguments": {"file_path": "a"}}\n```',
)

GUARD = [{"name": "no edits", "tools": ["Edit"], "verdict": "deny", "reason": "read only"}]
GOVERNANCE_TABLES: tuple[Mapping[str, object], ...] = (
    {"tools": "hold"},
    {"tools": "auto"},
    {"tools": "hold", "on_unrepairable": "error"},
    {"tools": "hold", "repair": False, "validate": True},
    {"tools": "auto", "harvest": "auto", "rename": True, "dedupe": True},
    {"tools": "hold", "harvest": "auto", "hold_bytes": 1024},
    {"tools": "hold", "guard": GUARD},
    {"contract": True},
    {"choice": "required", "tools": "hold"},
)


class ClientRequest(msgspec.Struct, frozen=True):
    """A request body, and the model's name if the dialect has it in the URL."""

    body: bytes
    model: str = ""


def generate_reply(dice: Random) -> list[ReplyEvent]:
    """The events of a reply that obeys the grammar; its texts and arguments may be hard to carry."""
    events: list[ReplyEvent] = [ReplyStarted(id="reply_1", model="m")]
    for index in range(dice.randint(0, 4)):
        kind = dice.choice(("text", "call", "call", "reasoning"))
        if kind == "text":
            texts = [dice.choice((*TEXTS, *CALLS_AS_TEXT)) for _ in range(dice.randint(1, 3))]
            events.append(BlockOpened(index, Text(text="")))
            events += [TextDelta(index, piece) for text in texts for piece in cut_text(dice, text)]
        elif kind == "reasoning":
            events.append(BlockOpened(index, Reasoning()))
            events += [ReasoningDelta(index, piece, 0) for piece in cut_text(dice, dice.choice(TEXTS))]
        else:
            events.append(BlockOpened(index, ToolCall(id=f"call_{index}abcdef", name=dice.choice(NAMES))))
            events += [ArgumentsDelta(index, piece) for piece in cut_text(dice, dice.choice(ARGUMENTS))]
        events.append(BlockClosed(index))
    has_calls = any(isinstance(event, BlockOpened) and isinstance(event.block, ToolCall) for event in events)
    cause = dice.choice(("tool_calls", "length") if has_calls else CAUSES)
    return [*events, UsageReported(Usage(input=10, output=5)), ReplyFinished(cause=cause)]


def cut_text(dice: Random, text: str) -> list[str]:
    """The text in one to four pieces that are not empty."""
    edges = sorted({0, len(text), *(dice.randint(0, len(text)) for _ in range(dice.randint(0, 3)))})
    return [text[start:end] for start, end in pairwise(edges)]


def generate_stream(dialect: str, number: int) -> bytes:
    """A stream that this dialect allows."""
    dice = Random(f"stream {dialect} {number}")
    context = ClientContext(upstream="elsewhere", model="m", ids=IdSource(str(number)))
    return write_sse(dialect_named(dialect).stream_writer(context), *generate_reply(dice))


def _read_streams() -> dict[str, list[bytes]]:
    streams: dict[str, list[bytes]] = {
        dialect: [path.read_bytes() for path in sorted((RECORDINGS / dialect).glob("stream-*.sse"))]
        for dialect in DIALECTS
    }
    for path in case_files():
        case = read_case(path)
        if case.find("upstream") is not None and is_stream(case):
            streams[upstream_of(case).dialect].append(given_bytes(upstream_of(case)))
    for dialect in DIALECTS:
        streams[dialect] += [generate_stream(dialect, number) for number in range(GENERATED)]
    return {dialect: _drop_large(each, LARGEST_STREAM) for dialect, each in streams.items()}


def _drop_large(texts: Sequence[bytes], largest: int) -> list[bytes]:
    return [text for text in texts if 0 < len(text) <= largest]


def _read_replies() -> dict[str, list[bytes]]:
    return {
        dialect: [path.read_bytes() for path in sorted((RECORDINGS / dialect).glob("reply-*.json"))]
        for dialect in DIALECTS
    }


def _read_errors() -> dict[str, list[bytes]]:
    """The bodies of recorded HTTP errors."""
    return {
        dialect: [
            msgspec.json.encode(msgspec.json.decode(path.read_bytes())["body"])
            for path in sorted((RECORDINGS / dialect).glob("error-*.json"))
        ]
        for dialect in DIALECTS
    }


def _read_requests() -> dict[str, list[ClientRequest]]:
    requests: dict[str, list[ClientRequest]] = {}
    for dialect in DIALECTS:
        usual = msgspec.json.format((CASES / "requests" / f"{dialect}.json").read_bytes(), indent=-1)
        requests[dialect] = [ClientRequest(usual, GEMINI_MODEL if dialect == "gemini" else "")]
        for path in sorted((RECORDINGS / dialect).glob("request-*.json")):
            recorded = msgspec.json.decode(path.read_bytes())
            body = msgspec.json.encode(recorded["body"])
            if len(body) <= LARGEST_REQUEST:
                requests[dialect].append(ClientRequest(body, GEMINI_MODEL if dialect == "gemini" else ""))
    return requests


class Corpus:
    """All inputs by dialect. The first request of a dialect is the usual one of the golden cases."""

    def __init__(self) -> None:
        self.streams = _read_streams()
        self.replies = _read_replies()
        self.errors = _read_errors()
        self.requests = _read_requests()
        tables = [read_governance(dict(table)) for table in GOVERNANCE_TABLES]
        self.governance: tuple[Governance, ...] = tuple(tables)
