"""A body that is read and written again for a server of the same dialect is the one that came."""

import msgspec
import pytest

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import TargetFacts
from tests.dialects.openai_chat.bodies import MESSAGES, SETTINGS
from tests.dialects.openai_chat.replies import object_of

HELLO = {"role": "user", "content": "hello"}


def read(body: Json) -> Request:
    return DIALECT.read_request(object_of(msgspec.json.decode(msgspec.json.encode(body))), Losses())


@pytest.mark.parametrize("message", MESSAGES, ids=str)
def test_a_message_is_written_again_as_it_was(message: Json) -> None:
    body: Json = {"model": "m", "messages": [message]}
    assert DIALECT.write_request(read(body), TargetFacts(dialect="openai_chat"), Losses()) == body


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_settings_are_written_again_as_they_were(settings: Json) -> None:
    body: Json = {"model": "m", "messages": [HELLO], **settings}
    assert DIALECT.write_request(read(body), TargetFacts(dialect="openai_chat"), Losses()) == body
