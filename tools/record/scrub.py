"""Makes a recorded request fit to keep: its structure stays, foreign prose and facts of this machine go.

Kept are keys, types, roles, names, enum values, numbers and the texts of our own script. Every other text
becomes a short one of ours, and the same text always becomes the same one within a run, so that a prefix
shared by two requests is still shared after scrubbing. What is not known to be harmless is replaced.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from tools.record.keys import (
    ARGUMENT_KEYS,
    FIXED_VALUES,
    KEPT_HEADERS,
    LABEL_OF_KEY,
    LABEL_OF_ROLE,
    LITERAL_KEYS,
    NAMED_SCHEMA_KEYS,
    NESTED_JSON_KEYS,
    PROSE_KEYS,
    RESULT_TYPES,
    SCHEMA_KEYS,
    TEXT_KEYS,
    VALUE_KEYS,
)

TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mMwTpsJAAICATNoejH4AAAAAElFTkSuQmCC"
GRAMMARS = {"lark": "start: /(.|\\n)+/", "regex": "(.|\\n)+"}

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
AGENT = re.compile(r"\ba[0-9a-f]{16}\b")
SESSION = re.compile(r"\b(ses|prt|msg)_[0-9a-f]{12}[0-9A-Za-z]{8,}")
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
RUNTIME = re.compile(r"(gl-\w+/v?\d+)\.[\d.]+")
SYSTEM_NAME = re.compile(r"\((?:Debian|Ubuntu|Mac OS)[^;)]*;")
BILLING = re.compile(r"(cc_version=\d+\.\d+\.\d+)\.\w+")
LONE_TAG = re.compile(r"</?[a-z_]+[^<>]{0,60}>")
TAGGED = re.compile(r"\s*<([a-z_ -]+)>.*</\1>\s*", re.DOTALL)
DATA_URL = re.compile(r"data:image/[\w.+-]+;base64,")
BASE64 = re.compile(r"[A-Za-z0-9+/]{80,}={0,2}")
WORD = re.compile(r"[A-Za-z]+")


class Scrubber:
    """Scrubs the requests of one run. Holds what was replaced by what, so that equal stays equal."""

    def __init__(self, own_texts: Iterable[str], paths: dict[str, str]) -> None:
        self._own_words = {word for text in own_texts for word in WORD.findall(text)}
        self._paths = sorted(paths.items(), key=lambda pair: -len(pair[0]))
        self._names: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def body(self, body: dict[str, Any]) -> dict[str, Any]:
        return {key: self._value(key, value, LABEL_OF_KEY.get(key, "Text")) for key, value in body.items()}

    def headers(self, headers: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in headers.items() if name in KEPT_HEADERS}
        return {name: self._header(name, value) for name, value in kept.items()}

    def path(self, path: str) -> str:
        return self._facts(path)

    def _header(self, name: str, value: str) -> str:
        if name in NESTED_JSON_KEYS:
            return self._nested_json(value)
        return RUNTIME.sub(r"\1.0.0", SYSTEM_NAME.sub("(Linux;", self._facts(value)))

    def _value(self, key: str, value: Any, label: str) -> Any:
        if key in FIXED_VALUES:
            return FIXED_VALUES[key]
        if isinstance(value, dict):
            return self._object(key, value, label)
        if isinstance(value, list):
            if key == "tools":
                return [self._tool(item) for item in value]
            return [self._value(f"{key}[]", item, label) for item in value]
        if isinstance(value, str):
            return self._string(key, value, label)
        return value

    def _object(self, key: str, value: dict[str, Any], label: str) -> Any:
        if key in SCHEMA_KEYS:
            return self._schema(value, "the value")
        if key in ARGUMENT_KEYS:
            return self._arguments(value)
        label = LABEL_OF_KEY.get(key) or LABEL_OF_ROLE.get(str(value.get("role")), label)
        if value.get("type") in RESULT_TYPES:
            label = "Result text"
        return {name: self._value(name, item, LABEL_OF_KEY.get(name, label)) for name, item in value.items()}

    def _arguments(self, value: dict[str, Any]) -> dict[str, Any]:
        """Arguments come from our script: only the paths in them are of this machine."""
        return msgspec.json.decode(self._facts(msgspec.json.encode(value).decode()), type=dict[str, Any])

    def _tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        scrubbed: dict[str, Any] = {}
        for key, value in tool.items():
            if key in SCHEMA_KEYS and isinstance(value, dict):
                scrubbed[key] = self._schema(value, "the value")
            elif key == "description" and value:
                what = (tool.get("type") or "tool", tool.get("name", ""))
                scrubbed[key] = f"Describes the {' '.join(what).strip()}."
            elif key in ("function", "custom"):
                scrubbed[key] = self._tool(value)
            elif key in ("tools", "functionDeclarations"):
                scrubbed[key] = [self._tool(item) for item in value]
            elif key == "format":
                grammar = {"definition": GRAMMARS[value["syntax"]]} if "definition" in value else {}
                scrubbed[key] = value | grammar
            else:
                scrubbed[key] = self._value(key, value, "Text")
        return scrubbed

    def _schema(self, schema: Any, name: str) -> Any:
        if isinstance(schema, list):
            return [self._schema(item, name) for item in schema]
        if not isinstance(schema, dict):
            return schema
        scrubbed: dict[str, Any] = {}
        for key, value in schema.items():
            if key in NAMED_SCHEMA_KEYS and isinstance(value, dict):
                scrubbed[key] = {inner: self._schema(item, inner) for inner, item in value.items()}
            elif key in PROSE_KEYS and isinstance(value, str):
                scrubbed[key] = f"Describes {name}."
            elif key in VALUE_KEYS:
                scrubbed[key] = self._value(key, value, "Text")
            elif key not in LITERAL_KEYS:
                scrubbed[key] = self._schema(value, name)
            else:
                scrubbed[key] = value
        return scrubbed

    def _string(self, key: str, text: str, label: str) -> str:
        if key in NESTED_JSON_KEYS and text.startswith("{"):
            return self._nested_json(text)
        if BASE64.fullmatch(text):
            return TINY_PNG
        if found := DATA_URL.match(text):
            return found.group() + TINY_PNG
        text = self._facts(text)
        if key in ARGUMENT_KEYS or LONE_TAG.fullmatch(text) or self._is_own(text):
            return text
        if text.startswith("x-anthropic-billing-header:"):
            return BILLING.sub(r"\1.abc", text)
        if key not in TEXT_KEYS and not re.search(r"\s", text) and len(text) <= 200:
            return text
        return self._replacement(text, label)

    def _replacement(self, text: str, label: str) -> str:
        if text not in self._texts:
            short = f"{label} {len(self._texts) + 1}."
            tagged = TAGGED.fullmatch(text)
            self._texts[text] = f"<{tagged[1]}>\n{short}\n</{tagged[1]}>" if tagged else short
        return self._texts[text]

    def _is_own(self, text: str) -> bool:
        return len(text) <= 300 and all(word in self._own_words for word in WORD.findall(text))

    def _nested_json(self, text: str) -> str:
        decoded = msgspec.json.decode(text)
        return msgspec.json.encode(self._value("", decoded, "Text")).decode()

    def _facts(self, text: str) -> str:
        """Paths, ids and digests of this machine and this run, each by one that is plainly made up."""
        for path, replacement in self._paths:
            text = text.replace(path, replacement)
        text = UUID.sub(lambda found: self._name(found[0], "00000000-0000-4000-8000-{:012d}"), text)
        text = SESSION.sub(lambda found: self._name(found[0], found[1] + "_recording{:012d}"), text)
        text = AGENT.sub(lambda found: self._name(found[0], "a{:016d}"), text)
        return DIGEST.sub("0" * 64, text)

    def _name(self, found: str, pattern: str) -> str:
        return self._names.setdefault(found, pattern.format(len(self._names) + 1))
