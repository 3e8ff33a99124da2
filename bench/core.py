"""The pure path, against the least that any gateway must do: decode and encode the same JSON."""

import msgspec

from bench.measure import Result, compare
from bench.payloads import agent_request, chat_stream
from dragoman import StreamTranslator, translate_request

REQUEST_GOAL = 6.0
STREAM_GOAL = 4.0


def stream_report() -> list[str]:
    chunks = chat_stream()
    request = agent_request(20_000)
    payloads = [chunk[6:-2] for chunk in chunks[:-1]]
    joined = b"".join(chunks)

    def decode_and_encode() -> None:
        for payload in payloads:
            msgspec.json.encode(msgspec.json.decode(payload))

    def piece_by_piece(target: str) -> None:
        translator = StreamTranslator(source="openai_chat", target=target)
        for chunk in chunks:
            translator.feed(chunk)
        translator.close()

    def at_once() -> None:
        translator = StreamTranslator(source="openai_chat", target="anthropic")
        translator.feed(joined)
        translator.close()

    def with_request() -> None:
        translator = StreamTranslator(source="openai_chat", target="anthropic", request=request)
        for chunk in chunks:
            translator.feed(chunk)
        translator.close()

    results = compare(
        decode_and_encode,
        {
            "to anthropic, one event a read": lambda: piece_by_piece("anthropic"),
            "to anthropic, in one read": at_once,
            "to anthropic, with a 20 KB request to restore from": with_request,
            "to openai_chat": lambda: piece_by_piece("openai_chat"),
            "to openai_responses": lambda: piece_by_piece("openai_responses"),
            "to gemini": lambda: piece_by_piece("gemini"),
        },
        units=len(payloads),
    )
    return _table("OpenAI Chat stream, per event", results, STREAM_GOAL, "to anthropic, one event a read")


def request_report() -> list[str]:
    body = agent_request()

    def decode_and_encode() -> None:
        msgspec.json.encode(msgspec.json.decode(body))

    def translated(target: str) -> None:
        msgspec.json.encode(translate_request(body, source="anthropic", target=target).body)

    results = compare(
        decode_and_encode,
        {
            "to openai_chat": lambda: translated("openai_chat"),
            "to openai_responses": lambda: translated("openai_responses"),
            "to gemini": lambda: translated("gemini"),
            "to anthropic": lambda: translated("anthropic"),
        },
        units=1,
    )
    title = f"Anthropic request of {len(body) // 1000} KB, read + fit + write"
    return _table(title, results, REQUEST_GOAL, "to openai_chat")


def _table(title: str, results: dict[str, Result], goal: float, judged: str) -> list[str]:
    lines = [title]
    for name, result in results.items():
        label = name or "msgspec decode + encode"
        verdict = ""
        if name == judged:
            verdict = f"   goal {goal:g}x: {'met' if result.ratio <= goal else 'MISSED'}"
        lines.append(f"  {label:<52} {result.micros:9.2f} µs  {result.ratio:6.2f}x{verdict}")
    return lines
