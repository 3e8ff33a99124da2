"""The endpoint `count_tokens`: its body, which has no `max_tokens`, and its answer."""

from dragoman.dialects.base import CountFormat, Json


def read_body(body: Json) -> Json:
    # A request needs a cap; the body of this endpoint has none, because there is no answer to limit.
    body.setdefault("max_tokens", 1)
    return body


def write_answer(tokens: int) -> Json:
    return {"input_tokens": tokens}


COUNTING = CountFormat(family="claude", read_body=read_body, write_answer=write_answer)
