"""What the vendors' checks share: refusing, and the small questions that all of them ask."""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

Json = dict[str, Any]

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class Refused(Exception):
    """The vendor would answer 400; the message names the rule."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's result as it reached the vendor, with the call it answers."""

    call_id: str
    name: str
    arguments: str
    text: str
    failed: bool = False


class Checked(msgspec.Struct, kw_only=True):
    """What a legal request held."""

    results: list[Result]
    #: How many seals of the vendor's own came back.
    seals: int = 0
    #: How many calls stood without the seal they were made with (Gemini's documented way out).
    sentinels: int = 0


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def need(claim: object, message: str) -> None:
    if not claim:
        raise Refused(message)


def only(value: Mapping[str, object], allowed: Collection[str], message: str) -> None:
    """`message` has a place for the first key that is not allowed."""
    for key in value:
        need(key in allowed, message.format(key))


def is_base64(text: object) -> bool:
    if not isinstance(text, str) or not text:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_image_address(url: object) -> bool:
    """An address, or a data URL of an image in base64."""
    if not isinstance(url, str):
        return False
    found = re.fullmatch(r"data:(image/[a-z]+);base64,(.*)", url, re.DOTALL)
    return is_base64(found.group(2)) if found else url.startswith(("http://", "https://"))


def is_object_text(text: object) -> bool:
    """Whether a text is one JSON object."""
    try:
        return isinstance(text, str) and isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError):
        return False


def need_strict_schema(schema: Json, where: str) -> None:
    """A strict function's schema closes every object and requires every property."""
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        need(
            schema.get("additionalProperties") is False,
            f"Invalid schema for function '{where}': 'additionalProperties' is required to be false",
        )
        need(
            set(schema.get("required", [])) == set(properties),
            f"Invalid schema for function '{where}': 'required' must include every key in properties",
        )
        for inner in properties.values():
            need_strict_schema(inner, where)
    if isinstance(schema.get("items"), dict):
        need_strict_schema(schema["items"], where)
