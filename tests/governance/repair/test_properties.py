"""Properties that hold for every text."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.governance.repair import RAW_KEY, STEPS, repair
from tests.governance.repair.texts import ANY_TEXTS, JSON_TEXTS_OF_OBJECTS, OBJECTS, SCHEMAS, schema_of

Schema = dict[str, object] | None


@pytest.mark.rule("R80", "R83")
@given(text=JSON_TEXTS_OF_OBJECTS, schema=SCHEMAS, truncated=st.booleans())
def test_a_valid_object_is_never_touched(text: str, schema: Schema, truncated: bool) -> None:
    repaired = repair(text, schema, truncated=truncated)
    assert (repaired.text, repaired.ok, repaired.steps) == (text, True, ())


@pytest.mark.rule("R80", "C15")
@given(text=ANY_TEXTS, schema=SCHEMAS, truncated=st.booleans())
@example(text="//", schema={"properties": {"a": {"type": "string"}}}, truncated=False)
def test_the_result_is_always_one_object(text: str, schema: Schema, truncated: bool) -> None:
    repaired = repair(text, schema, truncated=truncated)
    assert isinstance(msgspec.json.decode(repaired.text), dict)
    assert repaired.ok == (not repaired.reason)
    assert set(repaired.steps) <= set(STEPS)
    if not repaired.ok:
        assert list(msgspec.json.decode(repaired.text)) == [RAW_KEY]


@pytest.mark.rule("R80")
@given(text=ANY_TEXTS, schema=SCHEMAS, truncated=st.booleans())
def test_repairing_twice_is_repairing_once(text: str, schema: Schema, truncated: bool) -> None:
    once = repair(text, schema, truncated=truncated).text
    assert repair(once, schema, truncated=truncated).text == once


@pytest.mark.rule("R84")
@given(text=ANY_TEXTS, schema=SCHEMAS)
def test_what_was_touched_is_reported(text: str, schema: Schema) -> None:
    repaired = repair(text, schema)
    assert not repaired.ok or bool(repaired.steps) == (repaired.text != text)


@given(value=OBJECTS, encodings=st.integers(1, 2))
def test_an_encoded_object_is_decoded_and_its_strings_are_not(
    value: dict[str, object], encodings: int
) -> None:
    text = msgspec.json.encode(value).decode()
    encoded = text
    for _ in range(encodings):
        encoded = msgspec.json.encode(encoded).decode()
    assert repair(encoded).text == text
    assert repair(f"```json\n{text}\n```", schema_of(value)).text == text


@given(value=OBJECTS)
def test_an_object_in_pythons_spelling_is_the_same_object(value: dict[str, object]) -> None:
    spelled = _in_python(value)
    repaired = repair(spelled)
    assert repaired.ok
    assert msgspec.json.decode(repaired.text) == value


def _in_python(value: object) -> str:
    """As Python would, but for characters that its escapes write in ways that are not JSON's."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join([f"{_in_python(key)}: {_in_python(item)}" for key, item in value.items()]) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join([_in_python(item) for item in value]) + "]"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)


@given(value=OBJECTS, place=st.integers(0, 100))
def test_commas_too_many_change_nothing(value: dict[str, object], place: int) -> None:
    text = msgspec.json.encode(value).decode()
    closers = [
        index for index, character in enumerate(text) if character in "}]" and _is_outside(text, index)
    ]
    at = closers[place % len(closers)]
    repaired = repair(text[:at] + ", " + text[at:])
    assert msgspec.json.decode(repaired.text) == value


def _is_outside(text: str, index: int) -> bool:
    """Whether a place in a JSON text is outside its strings."""
    inside = escaped = False
    for character in text[:index]:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            inside = not inside
    return not inside
