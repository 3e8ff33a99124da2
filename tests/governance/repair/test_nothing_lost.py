"""A repaired command has every letter that the model wrote: a part of a command is another command."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.repair import repair

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "cwd": {"type": "string"}},
    "required": ["command"],
}
#: Commands as models write them into JSON without escaping their quotation marks.
commands = st.lists(
    st.sampled_from(
        ["rm -rf", "/srv/u", "my dir", "ls", "a", '"', '"', "'", ",", ":", "}", "{", "]", " ", "=", ";"]
    ),
    max_size=10,
).map("".join)
#: Steps that leave out text on purpose: text around the object.
OMITTING = frozenset({"surrounding_text", "repeated_object", "omitted_values"})


def letters_of(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def content_of(value: object) -> str:
    """All keys and values of a decoded object, in their order."""
    if isinstance(value, dict):
        return "".join(f"{key}{content_of(inner)}" for key, inner in value.items())
    return "".join(map(content_of, value)) if isinstance(value, list) else str(value)


@pytest.mark.rule("G1")
@given(command=commands, schema=st.sampled_from([None, SCHEMA]), tail=st.sampled_from(["", ', "cwd": "src"']))
@settings(max_examples=1500, deadline=None)
def test_no_letter_of_a_command_is_lost(command: str, schema: dict[str, object] | None, tail: str) -> None:
    text = f'{{"command": "{command}"{tail}}}'
    result = repair(text, schema)
    if result.ok and OMITTING.isdisjoint(result.steps):
        assert letters_of(content_of(msgspec.json.decode(result.text))) == letters_of(text)
