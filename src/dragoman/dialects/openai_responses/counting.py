"""The endpoint `input_tokens`: its answer."""

from dragoman.dialects.base import CountFormat, Json


def write_answer(tokens: int) -> Json:
    return {"object": "response.input_tokens", "input_tokens": tokens}


COUNTING = CountFormat(family="gpt", write_answer=write_answer)
