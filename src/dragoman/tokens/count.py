"""A request's prompt tokens, estimated offline."""

from dragoman.wire.fields import decode, encode


def count_body(dialect: str, body: bytes, model: str) -> dict[str, object]:
    value = decode(body)
    total = max(1, len(encode(value)) // 4)
    if dialect == "gemini":
        return {"totalTokens": total}
    if dialect == "anthropic":
        return {"input_tokens": total}
    return {"object": "response.input_tokens", "input_tokens": total}
