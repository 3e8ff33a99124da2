"""Token counts. The API has no endpoint for them; the answer has the form of OpenAI's other API."""

from dragoman.dialects.base import CountFormat, Json


def write_answer(tokens: int) -> Json:
    return {"object": "response.input_tokens", "input_tokens": tokens}


COUNTING = CountFormat(family="open", write_answer=write_answer)
