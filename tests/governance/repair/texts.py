"""Random objects, their texts, and random damage to them."""

import json

from hypothesis import strategies as st

#: What breaks a careless repair when it stands in a string: quotes, brackets, separators, comments, markers.
IN_STRINGS = [*"\"'\\{}[],:=aé😀 \n", "//", "/*", "# ", "```", "</s>"]
#: What texts are made of, right and wrong.
IN_TEXTS = [
    *IN_STRINGS,
    *"“”1-.;\x00\ufeff\ud83d",
    '{"a":',
    "{}",
    '"a"',
    "True",
    "null",
    "*/",
    "<|x|>",
    "'''",
    "0x",
    "\\u",
]

PIECES = st.sampled_from(IN_STRINGS)
TOKENS = st.sampled_from(IN_TEXTS)
STRINGS = st.lists(PIECES, max_size=6).map("".join) | st.text(max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | STRINGS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS: st.SearchStrategy[dict[str, object]] = st.dictionaries(STRINGS, VALUES, max_size=4)

JSON_TEXTS_OF_OBJECTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    OBJECTS,
    st.booleans(),
    st.sampled_from([None, 2]),
)
SOUP = st.lists(TOKENS, max_size=14).map("".join)


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    text = draw(JSON_TEXTS_OF_OBJECTS)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        removed = draw(st.integers(0, 2))
        text = text[:place] + draw(st.lists(TOKENS, max_size=2).map("".join)) + text[place + removed :]
    return text


ANY_TEXTS = damaged_texts() | SOUP | st.text(max_size=20)

TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def schema_of(value: dict[str, object]) -> dict[str, object]:
    """A schema that declares just the members of this object, and requires the first."""
    properties = {name: {"type": TYPE_NAMES.get(type(member), "null")} for name, member in value.items()}
    return {"type": "object", "properties": properties, "required": list(value)[:1]}


SCHEMAS = st.none() | OBJECTS.map(schema_of) | OBJECTS
