"""The vendors' published clients read in our streams what the upstream sent, and notice when it broke off."""

from collections.abc import Callable

import anthropic
import openai
import pytest
from google.genai import errors

from tests.cases.case_file import Case, case_files, given_bytes, read_case
from tests.cases.essence import SDK_READERS, agree, read_essence
from tests.cases.run import is_stream, run_stream, upstream_of
from tests.sdk import anthropic_reader, gemini_reader, openai_chat_reader, openai_responses_reader

STREAMS = [
    pytest.param(case, client, id=f"{case.name}-{client}")
    for case in map(read_case, case_files())
    for client in case.clients
    if is_stream(case) and case.name.startswith("streams/")
]

#: Where a client cannot read what the upstream sent, and why.
HEARD_OTHERWISE = {
    ("streams/anthropic-refusal", "openai_chat"): "the explanation of a refusal is the refusal's text",
    ("streams/anthropic-refusal", "openai_responses"): "the explanation of a refusal is the refusal's text",
    (
        "streams/responses-custom-tool-call",
        "openai_chat",
    ): "the helper cannot accumulate calls with free text",
    ("streams/responses-unknown-events", "openai_responses"): "the client declares no such item",
}

#: What each client does with a reply that failed; the Responses helper misses the `response.completed`.
NOTICES: dict[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...]]] = {
    "anthropic": (anthropic_reader.accumulate, (anthropic.APIError,)),
    "openai_chat": (openai_chat_reader.accumulate, (openai.APIError,)),
    "openai_responses": (openai_responses_reader.accumulate, (openai.APIError, RuntimeError)),
    "gemini": (gemini_reader.accumulate, (errors.APIError,)),
}


@pytest.mark.rule("R60", "R90")
@pytest.mark.parametrize(("case", "client"), STREAMS)
def test_a_published_client_reads_what_was_written(case: Case, client: str) -> None:
    given = given_bytes(upstream_of(case))
    stream, translator = run_stream(case, client, [given])
    if translator.failure is None and (case.name, client) not in HEARD_OTHERWISE:
        received, meant = SDK_READERS[client](stream), read_essence(upstream_of(case).dialect, given)
        assert agree(received, meant), (received, meant)


@pytest.mark.rule("R127", "H72", "H73", "P16")
@pytest.mark.parametrize(("case", "client"), STREAMS)
def test_a_published_client_notices_that_a_reply_failed(case: Case, client: str) -> None:
    stream, translator = run_stream(case, client, [given_bytes(upstream_of(case))])
    if translator.failure is not None:
        accumulate, error = NOTICES[client]
        with pytest.raises(error):
            accumulate(stream)
