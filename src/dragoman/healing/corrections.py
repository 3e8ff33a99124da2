"""What the message of a refusal proves about a model: the changes of facts that a row of `refusals` can name.

A change takes the named groups of the row's match, and returns the new value of its fact; None if the message
does not contain the value.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from dragoman.fit.vendor_fields import REFUSED_EXTRAS
from dragoman.hub.request import EFFORTS
from dragoman.providers.facts import SAMPLING

#: The fact to which each named field is added.
REFUSED_FIELDS = "refused_fields"

#: The named groups of a match.
Groups = Mapping[str, str | None]
FactChange = Callable[[Groups], object]
FactChanges = Mapping[str, FactChange]

#: Seconds for which a learned fact holds. After that the request is tried again as the client sends it.
LONG = 7 * 86400.0
#: Facts that take much from the model, and that a restart of a local server with other options can end.
SHORT = 3600.0
#: The fact belongs to one request, or to a combination of its settings, and is not remembered.
ONCE = 0.0
#: The facts that hold for `SHORT`.
SHORT_LIVED = frozenset({"function_calling", "images", "documents", "audio", "video", "hosted_tools"})

#: A larger number is no limit of a model.
_LARGEST = 10**9
#: Smaller limits are no limits of a model: they would leave no room for an answer, or for distinct names.
MIN_OUTPUT_LIMIT = 512
MIN_CALL_ID_LIMIT = 8
MIN_TOOL_NAME_LIMIT = 16
#: Vendors require at most 16 tokens for an answer.
MAX_OUTPUT_MINIMUM = 4096

_NOT_DIGIT = re.compile(r"\D")
_INDEX = re.compile(r"\[(\d+)\]")
_PREFIXES = ("body.", "$.")


class Removal(msgspec.Struct, frozen=True):
    """A change of a set-valued fact: remove `without` from the set.

    The set is computed per request, because it depends on the client's dialect.
    """

    without: frozenset[str]


class Correction(NamedTuple):
    """The facts that make a refused request valid.

    `refuses_seals`: the target refused the seals in the request.
    """

    facts: Mapping[str, object]
    lifetime: float = LONG
    refuses_seals: bool = False


#: The correction for a server that refuses both names of the limit.
NO_OUTPUT_LIMIT = Correction({"limits_output": False})


def refuses_both_names(first: Correction, second: Correction) -> bool:
    """Whether a server refuses `max_tokens` and, in the corrected request, `max_completion_tokens` too."""
    return all("max_tokens_field" in correction.facts for correction in (first, second))


def list_items(facts: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
    """The single statements of facts, each with its name and the item that it is about.

    Each refused field and each removed value is an item, because each was proved by a refusal of its own.
    """
    for name, value in facts.items():
        if isinstance(value, Removal):
            yield from ((name, item, Removal(frozenset({item}))) for item in sorted(value.without))
        elif name == REFUSED_FIELDS and isinstance(value, tuple):
            yield from ((name, item, (item,)) for item in value)
        else:
            yield name, "", value


def merge_facts(known: Mapping[str, object], later: Mapping[str, object]) -> dict[str, object]:
    """Merge two sets of facts. Refused fields and removals add up; otherwise the value of `later` holds.

    A removal from a known set gives a smaller set.
    """
    merged = dict(known)
    for name, value in later.items():
        before = merged.get(name)
        if isinstance(before, Removal) and isinstance(value, Removal):
            value = Removal(before.without | value.without)
        elif isinstance(value, Removal) and isinstance(before, frozenset | tuple):
            value = frozenset(before) - value.without
        elif name == REFUSED_FIELDS and isinstance(before, tuple) and isinstance(value, tuple):
            value = tuple(dict.fromkeys((*before, *value)))
        merged[name] = value
    return merged


def describe_facts(facts: Mapping[str, object]) -> str:
    """The facts for logs and headers, such as `sampling without temperature, max_output_tokens 8192`."""
    return ", ".join(f"{name} {_describe_value(value)}" for name, value in facts.items())


def _describe_value(value: object) -> str:
    if isinstance(value, Removal):
        return f"without {' '.join(sorted(value.without))}"
    if isinstance(value, frozenset | tuple):
        return " ".join(map(str, sorted(value) if isinstance(value, frozenset) else value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def constant(value: object) -> FactChange:
    return lambda groups: value


def without(*items: str) -> FactChange:
    return lambda groups: Removal(frozenset(items))


def without_named(group: str) -> FactChange:
    """Build a `FactChange`: remove the value that the message names in this group."""
    return lambda groups: Removal(frozenset({groups[group] or ""}))


def limit(*names: str, less: int = 0, least: int = 1, most: int = _LARGEST) -> FactChange:
    """Build a `FactChange`: the number in the first matched group of `names`, minus `less`.

    The groups are those of the refusal's pattern; the default is the group `limit`. A number outside of
    `least` and `most` proves nothing.
    """

    def read(groups: Groups) -> object:
        number = _read_number(groups, *(names or ("limit",))) - less
        return number if least <= number <= most else None

    return read


def decimal(groups: Groups) -> object:
    """A `FactChange`: the number in the group `limit`, as a float."""
    return float(groups["limit"] or 0)


def number_range(groups: Groups) -> object:
    """A `FactChange`: the numbers in the groups `low` (or `from`) and `high`; 0 (no limit) if absent."""
    return (_read_number(groups, "low", "from"), _read_number(groups, "high"))


def efforts(groups: Groups) -> object:
    """A `FactChange`: the efforts that the text in the group `list` names."""
    named = set(re.findall(r"[a-z]+", (groups["list"] or "").lower()))
    return tuple(effort for effort in EFFORTS if effort in named) or None


def _read_number(groups: Groups, *names: str) -> int:
    text = next((text for name in names if (text := groups.get(name))), "0")
    return int(_NOT_DIGIT.sub("", text)[:18] or "0")


def _sampling(name: str) -> FactChanges:
    return {"sampling": without(name)}


#: The objects with the settings of a request: the request itself, and nested ones of Gemini and Responses.
SETTINGS = frozenset({"", "generation_config", "generationConfig", "text"})

#: The facts about fields that a fact describes better than their removal, by name without `_`, in lower case.
#: `max_tokens` and `max_completion_tokens` are two names of one limit: a server that refuses one takes the
#: other.
FIELD_FACTS: Mapping[str, FactChanges] = {
    **{name.replace("_", ""): _sampling(name) for name in sorted(SAMPLING)},
    "toplogprobs": _sampling("logprobs"),
    "maxtokens": {"max_tokens_field": constant("max_completion_tokens")},
    "maxcompletiontokens": {"max_tokens_field": constant("max_tokens")},
    "maxoutputtokens": {"limits_output": constant(False)},
    "paralleltoolcalls": {"parallel_control": constant(False)},
    "disableparalleltooluse": {"parallel_control": constant(False)},
    "streamoptions": {"stream_usage": constant(False), REFUSED_FIELDS: constant(("stream_options",))},
    "reasoningeffort": {"reasoning": constant("none")},
    "reasoning": {"reasoning": constant("none"), REFUSED_FIELDS: constant(("reasoning",))},
    "thinking": {"reasoning": constant("none"), REFUSED_FIELDS: constant(("thinking",))},
    "thinkingconfig": {"reasoning": constant("none")},
    "responseformat": {"outputs": constant(frozenset({"text"}))},
    "outputformat": {"outputs": constant(frozenset({"text"}))},
    "toolchoice": {"choices": constant(frozenset())},
    "tools": {"function_calling": constant(False)},
    "functions": {"function_calling": constant(False)},
    "stop": {"stop_limit": constant(0)},
    "stopsequences": {"stop_limit": constant(0)},
}

#: Fields without which a request means something else: state that the vendor stores, where the request is
#: stored, its price, and its safety. A part of such a field is not removed either.
STATE = frozenset(
    {
        *(name.replace("_", "") for name in REFUSED_EXTRAS),
        *("previousresponseid", "cachedcontent", "container", "mcpservers"),
        *("store", "servicetier", "safetysettings"),
    }
)

#: Fields without which a request means something else, or nothing.
ESSENTIAL = frozenset(
    {
        *("model", "messages", "contents", "input", "role", "content", "parts", "text", "type", "id"),
        *("callid", "toolcallid", "tooluseid", "function", "arguments", "stream", "system", "instructions"),
        *("parameters", "inputschema", "schema", "properties", "source", "data", "url", "imageurl", "output"),
        *("systeminstruction", "functiondeclarations", "toolcalls", "prompt", "n"),
    }
)


def change_field(field: str, parent: str) -> dict[str, object]:
    """The facts that keep a refused field out of requests. `parent`: the path of its object, or empty.

    Empty if the request is not valid without the field.
    """
    path = _clean_path(f"{parent}.{field}" if parent else field)
    holder, _, name = path.rpartition(".")
    plain = _plain(name)
    if plain in FIELD_FACTS and holder in SETTINGS:
        return {fact: change({}) for fact, change in FIELD_FACTS[plain].items()}
    is_state = any(_plain(segment) in STATE for segment in path.split("."))
    if is_state or plain in ESSENTIAL or not plain.isidentifier():
        return {}
    return {REFUSED_FIELDS: (path,)}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _clean_path(path: str) -> str:
    """Write a path as in `Facts.refused_fields`: without a root, and `*` for each index."""
    path = _INDEX.sub(r".\1", path.strip(" `'\""))
    for prefix in _PREFIXES:
        path = path.removeprefix(prefix)
    return ".".join("*" if segment.isdecimal() else segment for segment in path.split(".") if segment)
