"""Token counts of the toy API."""

from dragoman.dialects.base import CountFormat

COUNTING = CountFormat(family="open", write_answer=lambda tokens: {"tokens": tokens})
