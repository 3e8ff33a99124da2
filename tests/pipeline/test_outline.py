"""An outline of a request serves the way back as well as the request itself."""

from pathlib import Path

import msgspec
import pytest

from dragoman.dialects.openai_chat.fragments import find_certain_names
from dragoman.dialects.registry import DIALECTS, dialect_named
from dragoman.fit import build_restoration
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.pipeline.outline import build_outline
from dragoman.providers.profile import Profile, build_target_facts

RECORDINGS = sorted((Path(__file__).parent.parent / "recordings").glob("*/request-*.json"))


def request_of(path: Path) -> Request:
    body = msgspec.json.decode(path.read_bytes())["body"]
    return dialect_named(path.parent.name).read_request(body, Losses(), model="model", stream=True)


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) > 20


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_way_back_is_the_same_for_an_outline(path: Path, upstream: str) -> None:
    request = request_of(path)
    facts = build_target_facts(Profile(dialect=upstream, model="model"), request.dialect)
    assert build_restoration(build_outline(request), facts) == build_restoration(request, facts)
    assert find_certain_names(build_outline(request)) == find_certain_names(request)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_an_outline_keeps_every_wish(path: Path) -> None:
    request = request_of(path)
    kept = build_outline(request)
    for field in Request.__struct_fields__:
        if field not in ("tools", "messages"):
            assert getattr(kept, field) == getattr(request, field)
    assert [(tool.name, tool.kind) for tool in kept.tools] == [
        (tool.name, tool.kind) for tool in request.tools
    ]


SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "description": "SECRET member"}}}


def test_an_outline_holds_nothing_that_was_sent() -> None:
    body: dict[str, object] = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "SECRET words"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":"SECRET"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "SECRET result"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "SECRET tool", "parameters": SCHEMA},
            }
        ],
    }
    request = dialect_named("openai_chat").read_request(body, Losses())
    kept = build_outline(request)
    assert "SECRET" not in str(kept)
    assert "SECRET" in str(request)
