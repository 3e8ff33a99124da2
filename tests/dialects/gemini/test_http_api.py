"""The path of a model at a Gemini upstream."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.gemini.http_api import HTTP_API
from dragoman.hub.errors import ClientProtocolError
from dragoman.server.paths import find_endpoint


@pytest.mark.rule("F20")
@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3", "models/gemini-3"),
        ("openai/gpt-4o", "models/openai%2Fgpt-4o"),
        ("local/a:b", "models/local%2Fa%3Ab"),
        ("claude@20251001", "models/claude@20251001"),
        # These are paths of the API: google-genai sends them as they are.
        ("models/gemini-3", "models/gemini-3"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("publishers/google/models/gemini-3", "publishers/google/models/gemini-3"),
        ("projects/p/locations/l/models/m", "projects/p/locations/l/models/m"),
    ],
)
def test_a_model_is_one_segment_below_models(model: str, path: str) -> None:
    assert HTTP_API.build_upstream_path(model, stream=False) == (f"{path}:generateContent", "")
    assert HTTP_API.build_upstream_path(model, stream=True) == (f"{path}:streamGenerateContent", "alt=sse")


@pytest.mark.rule("F20")
@given(segments=st.lists(st.text("abc.-_:@ %?#", min_size=1, max_size=8), min_size=1, max_size=4))
def test_a_gateway_as_the_upstream_reads_the_same_name(segments: list[str]) -> None:
    model = "/".join(segments)
    if any(segment in (".", "..") for segment in segments):
        with pytest.raises(ClientProtocolError):
            HTTP_API.build_upstream_path(model, stream=False)
        return
    path = HTTP_API.build_upstream_path(model, stream=False).path
    assert path.count("/") == 1
    endpoint = find_endpoint(unquote(f"/v1beta/{path}"))
    assert endpoint is not None
    assert (endpoint.name, endpoint.model) == ("turn", model)
