"""The recorded traffic, as parameters for tests."""

from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent.parent / "recordings"
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")


def stems(kind: str, ending: str) -> list[tuple[str, str]]:
    """Every recording of a kind, as (dialect, stem)."""
    return [
        (dialect, path.name.removesuffix(ending))
        for dialect in DIALECTS
        for path in sorted((FOLDER / dialect).glob(f"{kind}-*{ending}"))
    ]


REQUESTS = stems("request", ".json")
REPLIES = stems("reply", ".json")
STREAMS = stems("stream", ".sse")


def load(dialect: str, stem: str) -> dict[str, object]:
    value = msgspec.json.decode((FOLDER / dialect / f"{stem}.json").read_bytes())
    assert isinstance(value, dict)
    return value


def body_of(dialect: str, stem: str) -> dict[str, object]:
    """The body of a recorded request."""
    body = load(dialect, stem)["body"]
    assert isinstance(body, dict)
    return body


def stream_of(dialect: str, stem: str) -> bytes:
    return (FOLDER / dialect / f"{stem}.sse").read_bytes()


def url_of(dialect: str, stem: str) -> dict[str, object]:
    """The facts in a Gemini URL: the model's name, and whether the reply is streamed."""
    if dialect != "gemini":
        return {}
    path = load(dialect, stem)["path"]
    assert isinstance(path, str)
    name = path.partition("?")[0].rpartition("models/")[2].partition(":")[0]
    return {"model": name, "stream": "streamGenerateContent" in path}
