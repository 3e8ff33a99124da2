"""Raw text as the value that a schema wants."""

import pytest

from dragoman.governance.harvest.schema_values import convert_text

ROOT = {"$defs": {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}, "a/b": {"type": "boolean"}}}


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ("5", {"type": "string"}, '"5"'),
        ("5", {"type": "integer"}, "5"),
        ("\n+5 ", {"type": "integer"}, "5"),
        ("5.0", {"type": "integer"}, '"5.0"'),
        ("05", {"type": "integer"}, '"05"'),
        ("-5.50e3", {"type": "number"}, "-5.50e3"),
        ("NaN", {"type": "number"}, '"NaN"'),
        ("true", {"type": "boolean"}, "true"),
        ("False", {"type": "boolean"}, "false"),
        ("yes", {"type": "boolean"}, '"yes"'),
        ("null", {"type": "string"}, '"null"'),
        ("null", {"type": ["string", "null"]}, "null"),
        ("None", {"type": "string", "nullable": True}, "null"),
        ("5", {"type": ["string", "integer"]}, "5"),
        ("5", {"anyOf": [{"type": "string"}, {"type": "number"}]}, "5"),
        ("x", {"oneOf": [{"type": "integer"}, {"type": "string"}]}, '"x"'),
        ('[1, "a"]', {"type": "array"}, '[1, "a"]'),
        ("[1, 'a']", {"type": "array"}, '[1,"a"]'),
        ("(1, 2)", {"type": "array"}, "[1,2]"),
        ("(1)", {"type": "array"}, '"(1)"'),
        ("[1", {"type": "array"}, '"[1"'),
        ('{"a": 1}', {"type": "array"}, '"{\\"a\\": 1}"'),
        ('{"a": 1}', {"type": "object"}, '{"a": 1}'),
        ("{'a': None}", {"type": "object"}, '{"a":null}'),
        ('{"a": 1}', {"type": "string"}, '"{\\"a\\": 1}"'),
        ("2", {"enum": [1, 2]}, "2"),
        ("2", {"const": "2"}, '"2"'),
        ("7", {"$ref": "#/$defs/count"}, "7"),
        ("true", {"$ref": "#/$defs/a~1b"}, "true"),
        ("7", {"$ref": "#/$defs/loop"}, '"7"'),
        ("7", {"$ref": "elsewhere"}, '"7"'),
        ("7", {"type": 3}, '"7"'),
        ("7", None, '"7"'),
        ("7", [], '"7"'),
        ("\ud83d", {"type": "string"}, '"?"'),
    ],
)
def test_text_becomes_what_the_schema_wants(text: str, schema: object, expected: str) -> None:
    assert convert_text(text, schema, ROOT) == expected


def test_a_schema_that_contains_itself_declares_no_type() -> None:
    endless: dict[str, object] = {}
    endless["anyOf"] = [endless, endless]
    assert convert_text("7", endless, endless) == '"7"'
