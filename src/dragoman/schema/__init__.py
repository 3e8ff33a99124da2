"""The JSON Schema toolkit: reads, walks and converts the schemas that clients send.

All functions are pure. A schema comes from a client and may hold anything: what is not understood counts as
absent, references may form a circle, and every walk is bounded in depth and size. No function changes its
argument; a function that has nothing to change returns the same object.

Modules:

- `nodes`: the keywords that hold schemas, `edit_schema` and `iter_children` to walk them, `properties_of`,
  `required_of`, `types_of`, and `find_reference` / `resolve` for `$ref` within one document.
- `openapi`: `convert_to_openapi`, JSON Schema as the subset of OpenAPI that Gemini's `parameters` accept.
- `objects`: `add_properties` and `remove_stale_names`, edits for servers that are exact about objects.
- `validity`: `make_valid`, schemas that are no JSON Schema in the form of one.
- `closed`: `close_schema`, `make_strict` and `is_strict_schema`, for vendors that hold an answer or the
  arguments of a tool to the schema exactly.

The package keeps no state. Checking a value against a schema is the job of `governance`.
"""

from dragoman.schema.closed import ClosedSchema, close_schema, is_strict_schema, make_strict
from dragoman.schema.nodes import (
    MAX_DEPTH,
    TYPE_NAMES,
    Schema,
    edit_schema,
    find_reference,
    is_object_schema,
    iter_children,
    properties_of,
    required_of,
    resolve,
    types_of,
)
from dragoman.schema.objects import (
    add_properties,
    has_irregular_objects,
    is_irregular_object,
    remove_stale_names,
)
from dragoman.schema.openapi import convert_to_openapi
from dragoman.schema.validity import make_valid

__all__ = [
    "MAX_DEPTH",
    "TYPE_NAMES",
    "ClosedSchema",
    "Schema",
    "add_properties",
    "close_schema",
    "convert_to_openapi",
    "edit_schema",
    "find_reference",
    "has_irregular_objects",
    "is_irregular_object",
    "is_object_schema",
    "is_strict_schema",
    "iter_children",
    "make_strict",
    "make_valid",
    "properties_of",
    "remove_stale_names",
    "required_of",
    "resolve",
    "types_of",
]
