"""A reply as Gemini's generateContent gives it: whole, and as chunks.

Every second reply leaves out the ids of its calls, because not all of Google's endpoints give any.
"""

import re
from collections.abc import Iterator

from tests.e2e.upstream.reply_writers.pieces import OUTPUT_TOKENS, REASONING_TOKENS, Json, Reply, cut


def whole(reply: Reply) -> Json:
    thoughts = REASONING_TOKENS if reply.reasoning else 0
    usage: Json = {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": 30,
        "candidatesTokenCount": OUTPUT_TOKENS - thoughts,
        "totalTokenCount": reply.input_tokens + OUTPUT_TOKENS,
    }
    usage |= {"thoughtsTokenCount": thoughts} if thoughts else {}
    candidate = {
        "content": {"role": "model", "parts": list(_parts(reply))},
        "finishReason": "MAX_TOKENS" if reply.stop == "length" else "STOP",
        "index": 0,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": reply.request.get("model", "mock"),
        "responseId": reply.identity("", length=22),
    }


def _parts(reply: Reply) -> Iterator[Json]:
    if reply.reasoning and _shows_thoughts(reply.request):
        yield {"text": reply.reasoning, "thought": True}
    signature = reply.vault.seal("gemini", "thought", reply.reasoning, reply.number)
    if reply.text:
        yield {"text": reply.text} | ({} if reply.calls else {"thoughtSignature": signature})
    for position, call in enumerate(reply.calls):
        made: Json = {"id": reply.identity("", position, 8)} if reply.number % 2 == 0 else {}
        made |= {"name": call.name, "args": call.arguments}
        yield {"functionCall": made} | ({"thoughtSignature": signature} if position == 0 else {})


def _shows_thoughts(request: Json) -> bool:
    for name in ("generationConfig", "generation_config"):
        for inner in ("thinkingConfig", "thinking_config"):
            config = (request.get(name) or {}).get(inner) or {}
            if config.get("includeThoughts") or config.get("include_thoughts"):
                return True
    return False


def frames(body: Json, request: Json) -> Iterator[Json]:
    del request
    candidate = body["candidates"][0]
    chunks = list(_chunks(candidate["content"]["parts"]))
    if "functionCall" in chunks[-1]:
        chunks.append({"text": ""})
    for index, part in enumerate(chunks):
        is_last = index == len(chunks) - 1
        one: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
        one |= {"finishReason": candidate["finishReason"]} if is_last else {}
        usage = (
            body["usageMetadata"]
            if is_last
            else {"promptTokenCount": body["usageMetadata"]["promptTokenCount"]}
        )
        yield body | {"candidates": [one], "usageMetadata": usage}


def _chunks(parts: list[Json]) -> Iterator[Json]:
    """Text comes in pieces; the signature of a text stands on an empty text behind it."""
    for part in parts:
        if "text" not in part:
            yield part
            continue
        thought = {"thought": True} if part.get("thought") else {}
        yield from ({"text": piece} | thought for piece in cut(part["text"]))
        if "thoughtSignature" in part:
            yield {"text": "", "thoughtSignature": part["thoughtSignature"]}


def error(status: int, message: str) -> Json:
    states = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
    body: Json = {"code": status, "message": message, "status": states.get(status, "INTERNAL")}
    waits = re.search(r"retry in (\d+)s", message)
    if waits:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        body["details"] = [{"@type": kind, "retryDelay": f"{waits.group(1)}s"}]
    return {"error": body}


def kind(frame: Json) -> str:
    """Which part of a reply a frame belongs to."""
    candidate = frame["candidates"][0]
    part = candidate["content"]["parts"][0]
    if "finishReason" in candidate:
        return "end"
    if "functionCall" in part:
        return "call"
    return "reasoning" if part.get("thought") else "text"


def broken(message: str, played: list[Json]) -> list[Json]:
    """An error inside the stream."""
    del played
    return [error(503, message)]
