"""Every key of every table reaches its struct: a legal value other than the default is there after `load`."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest
import tomlkit

from dragoman.config.config import Config, KeyTable, list_tables
from dragoman.config.load import load
from dragoman.config.provider import TargetName
from dragoman.config.rules import RuleConditions
from dragoman.config.settings import ClaudeCodeSessions, Secret, Timeouts
from dragoman.config.steps import StepSettings
from dragoman.config.tools import SearchMapping
from dragoman.config.value_kinds import Kind
from dragoman.governance.guard.rules import read_rules
from dragoman.hub.errors import ConfigError

SERVER: dict[str, object] = {"dialect": "openai_chat", "base_url": "http://127.0.0.1:8000/v1"}
PROGRAM: dict[str, object] = {"dialect": "claude_code"}
#: Legal values of different types, for keys that have no example of their own.
CANDIDATES: tuple[object, ...] = (True, False, 7, 2048, 1.5, "other", ["other"], [3, 4])


class Place(NamedTuple):
    """One table: how to write a file with it, and where its struct is in the configuration."""

    write: Callable[[dict[str, object]], dict[str, object]]
    find: Callable[[Config], object]


class Example(NamedTuple):
    """A value in the file and its value in the struct."""

    written: object
    read: object


def _write_provider(values: dict[str, object], base: dict[str, object] = SERVER) -> dict[str, object]:
    return {"providers": {"p": base | values}}


def _write_route(values: dict[str, object]) -> dict[str, object]:
    needed: dict[str, object] = {"order": "weighted"} if "weights" in values else {}
    needed |= {"target": ["p/a", "p/b"]} if "hedge" in values else {}
    return {**_write_provider({}), "routes": [{"match": "m", "target": "p"} | needed | values]}


def _write_rule(values: dict[str, object]) -> dict[str, object]:
    results = {"target", "route", "answer", "function"}
    rule = values if results & set(values) else {"target": "p", **values}
    return {**_write_route({}), "rules": [rule]}


def _write_search(values: dict[str, object]) -> dict[str, object]:
    search = {"engine": "json", "address": "http://127.0.0.1:1"}
    return {**_write_provider({}), "tools": {"web_search": search | values}}


def _write_server(values: dict[str, object]) -> dict[str, object]:
    server = values if values.keys() & {"url", "command"} else {"command": "serve", **values}
    return {"tools": {"mcp": {"s": server}}}


def _write_prompt(values: dict[str, object]) -> dict[str, object]:
    needed = {} if {"operation", "find"} & set(values) else {"find": "x"}
    return {**_write_route({}), "prompts": [{**needed, **values}]}


PLACES = {
    "": Place(lambda values: _write_provider({}) | values, lambda config: config),
    "[server]": Place(lambda values: {"server": values}, lambda config: config.server),
    "[state]": Place(lambda values: {"state": values}, lambda config: config.state),
    "[responses]": Place(lambda values: {"responses": values}, lambda config: config.responses),
    "[telemetry]": Place(lambda values: {"telemetry": values}, lambda config: config.telemetry),
    "[tools]": Place(lambda values: {"tools": values}, lambda config: config.tools),
    "[records]": Place(lambda values: {"records": values}, lambda config: config.records),
    "[session_limits]": Place(
        lambda values: {"session_limits": values}, lambda config: config.session_limits
    ),
    "[sign_in]": Place(lambda values: {"sign_in": values}, lambda config: config.sign_in),
    "[tools.image]": Place(
        lambda values: {**_write_provider({}), "tools": {"image": {"target": "p/other"} | values}},
        lambda config: config.tools.image,
    ),
    "[tools.mcp.NAME]": Place(_write_server, lambda config: config.tools.mcp["s"]),
    "[steps.NAME]": Place(
        lambda values: {"steps": {"force_reasoning": values}}, lambda config: config.steps["force_reasoning"]
    ),
    "[tools.web_search]": Place(_write_search, lambda config: config.tools.web_search),
    "[tools.web_search.mapping]": Place(
        lambda values: _write_search({"mapping": values}),
        lambda config: config.tools.web_search and config.tools.web_search.mapping,
    ),
    "[tools.web_fetch]": Place(
        lambda values: {"tools": {"web_fetch": values}}, lambda config: config.tools.web_fetch
    ),
    "[providers.NAME]": Place(_write_provider, lambda config: config.providers["p"]),
    "[providers.NAME.timeouts]": Place(
        lambda values: _write_provider({"timeouts": values}), lambda config: config.providers["p"].timeouts
    ),
    "[[providers.NAME.payload]]": Place(
        lambda values: _write_provider({"payload": [{"remove": ["x"]} | values]}),
        lambda config: config.providers["p"].payload[0],
    ),
    "[[routes.payload]]": Place(
        lambda values: _write_route({"payload": [{"remove": ["x"]} | values]}),
        lambda config: config.routes[0].payload[0],
    ),
    "[providers.NAME.sessions]": Place(
        lambda values: _write_provider({"sessions": values}, PROGRAM),
        lambda config: config.providers["p"].sessions,
    ),
    '[providers.NAME.models."MODEL"]': Place(
        lambda values: _write_provider({"models": {"m": values}}),
        lambda config: config.providers["p"].build_profile("m").facts,
    ),
    "[[rules]]": Place(_write_rule, lambda config: config.rules[0]),
    "[rules.when]": Place(lambda values: _write_rule({"when": values}), lambda config: config.rules[0].when),
    "[[prompts]]": Place(_write_prompt, lambda config: config.prompts[0]),
    "[[routes]]": Place(_write_route, lambda config: config.routes[0]),
    "[routes.governance]": Place(
        lambda values: _write_route({"governance": values}),
        lambda config: config.providers["p"].find_governance("m", config.routes[0].governance),
    ),
}
#: The keys whose value in the struct is not the one in the file, or that accept only certain texts.
EXAMPLES: dict[tuple[str, str], Example] = {
    ("", "default"): Example("p/m", (TargetName("p", "m"),)),
    ("", "managed_settings"): Example({"model": "m"}, {"model": "m"}),
    ("[records]", "keys"): Example({"ci": "off"}, {"ci": "off"}),
    ("[sign_in]", "url"): Example("https://gateway.example.com", "https://gateway.example.com"),
    ("[server]", "keys"): Example(["k"], (Secret("k"),)),
    ("[server]", "hosts"): Example(["Host"], ("host",)),
    ("[state]", "url"): Example("postgresql://127.0.0.1/db", Secret("postgresql://127.0.0.1/db")),
    ("[telemetry]", "metrics_key"): Example("k", Secret("k")),
    ("[telemetry]", "traces"): Example("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
    ("[providers.NAME]", "dialect"): Example("anthropic", "anthropic"),
    ("[providers.NAME]", "preset"): Example("vllm", "vllm"),
    ("[providers.NAME]", "base_url"): Example("http://127.0.0.1:9/v2", "http://127.0.0.1:9/v2"),
    ("[providers.NAME]", "api_key"): Example("k", (Secret("k"),)),
    ("[providers.NAME]", "headers"): Example({"X-Team": "a"}, {"x-team": Secret("a")}),
    ("[providers.NAME]", "timeouts"): Example({"idle": 7.0}, Timeouts(idle=7.0)),
    ("[providers.NAME]", "proxy"): Example("http://127.0.0.1:3128", "http://127.0.0.1:3128"),
    ("[providers.NAME]", "verify"): Example(False, False),
    ("[providers.NAME]", "models"): Example({"m": {"video": True}}, {"m": {"video": True}}),
    ('[providers.NAME.models."MODEL"]', "call_family"): Example("hermes", "hermes"),
    ("[[providers.NAME.payload]]", "set"): Example({"a.b": 1}, {"a.b": 1}),
    ("[[providers.NAME.payload]]", "default"): Example({"a": [1]}, {"a": [1]}),
    ("[providers.NAME]", "tools"): Example([], ()),
    ("[[routes]]", "tools"): Example([], ()),
    ("[tools.image]", "target"): Example("p/m", "p/m"),
    ("[steps.NAME]", "use"): Example("force_reasoning", "force_reasoning"),
    ("[steps.NAME]", "settings"): Example({"instruction": "Think."}, {"instruction": "Think."}),
    ("[providers.NAME]", "steps"): Example(["force_reasoning"], ("force_reasoning",)),
    ("[[routes]]", "steps"): Example(["force_reasoning"], ("force_reasoning",)),
    ("", "steps"): Example({"force_reasoning": {}}, {"force_reasoning": StepSettings()}),
    ("[tools.mcp.NAME]", "command"): Example(["run", "it"], ("run", "it")),
    ("[tools.mcp.NAME]", "url"): Example("http://127.0.0.1:2/mcp", "http://127.0.0.1:2/mcp"),
    ("[tools.mcp.NAME]", "env"): Example({"A": "b"}, {"A": Secret("b")}),
    ("[tools.mcp.NAME]", "headers"): Example({"X-Team": "a"}, {"x-team": Secret("a")}),
    ("[tools.web_search]", "engine"): Example("searxng", "searxng"),
    ("[tools.web_search]", "address"): Example("http://127.0.0.1:2", "http://127.0.0.1:2"),
    ("[tools.web_search]", "api_key"): Example("k", Secret("k")),
    ("[tools.web_search]", "target"): Example("p/m", "p/m"),
    ("[tools.web_search]", "mapping"): Example({"query": "x"}, SearchMapping(query="x")),
    ("[tools.web_search.mapping]", "fixed"): Example({"a": 1}, {"a": 1}),
    ("", "roles"): Example({"tester": "be:tester"}, {"lead": ("hydra:lead",), "tester": ("be:tester",)}),
    ("[[prompts]]", "operation"): Example("append", "append"),
    ("[[prompts]]", "when"): Example({"model": "m*"}, RuleConditions(model=("m*",))),
    ("[[rules]]", "preset"): Example("think", "think"),
    ("[[rules]]", "target"): Example("p/m", (TargetName("p", "m"),)),
    ("[[rules]]", "route"): Example("m", "m"),
    ("[[rules]]", "function"): Example("my.rules:choose", "my.rules:choose"),
    ("[[rules]]", "when"): Example({"model": "m*"}, RuleConditions(model=("m*",))),
    ("[rules.when]", "role"): Example("lead", ("lead",)),
    ("[rules.when]", "path"): Example(["/claude"], ("/claude",)),
    ("[rules.when]", "hours"): Example("22:00-06:00", "22:00-06:00"),
    ("[rules.when]", "headers"): Example({"x-team": "a*"}, {"x-team": "a*"}),
    ("[[routes.payload]]", "set"): Example({"a.b": 1}, {"a.b": 1}),
    ("[[routes.payload]]", "default"): Example({"a": [1]}, {"a": [1]}),
    ("[[routes]]", "weights"): Example([3], (3,)),
    ("[[routes]]", "on_overflow"): Example("p/m", (TargetName("p", "m"),)),
    ("[[routes]]", "on_refusal"): Example("p/m", (TargetName("p", "m"),)),
    ("[[routes]]", "target"): Example("p/m", (TargetName("p", "m"),)),
    ("[[routes]]", "session_limits"): Example({"cost": 7.0}, {"cost": 7.0}),
    ("[[routes]]", "governance"): Example({"tools": "hold"}, {"tools": "hold"}),
    ("[routes.governance]", "guard"): Example(["secrets"], read_rules(["secrets"], "guard")),
}
#: These keys are tables with a row of their own in `PLACES`, or (a model's) in `test_governance`.
OWN_TABLES = {
    ("", "server"),
    ("", "state"),
    ("", "responses"),
    ("", "telemetry"),
    ("", "tools"),
    ("", "records"),
    ("", "session_limits"),
    ("", "sign_in"),
    ("", "providers"),
    ("", "rules"),
    ("", "prompts"),
    ("", "routes"),
    ("[tools]", "plugins"),
    ("[tools]", "image"),
    ("[tools]", "mcp"),
    ("[tools]", "web_search"),
    ("[tools]", "web_fetch"),
    ("[providers.NAME]", "governance"),
    ("[providers.NAME]", "payload"),
    ("[providers.NAME]", "sessions"),
    ("[[routes]]", "payload"),
    ('[providers.NAME.models."MODEL"]', "governance"),
}


def _list_keys() -> list[tuple[KeyTable, str]]:
    return [
        (table, key)
        for table in list_tables()
        for key in table.keys
        if (table.heading, key) not in OWN_TABLES
    ]


def _load(values: dict[str, object]) -> Config:
    return load(tomlkit.dumps(values), "dragoman.toml", {})


def _find_field(struct: object, key: str) -> object:
    assert isinstance(struct, msgspec.Struct)
    (name,) = (field.name for field in msgspec.structs.fields(type(struct)) if field.encode_name == key)
    return getattr(struct, name)


def _sort(value: object) -> object:
    """Sets, tuples and lists as a list in one order, so that they can be compared."""
    return sorted(value, key=repr) if isinstance(value, frozenset | tuple | list) else value


def _is_read_as(written: object, found: object) -> bool:
    """Whether a value arrived. One string may stand for a list of one."""
    return found == written or (isinstance(written, str) and found == [written])


def _find_example(kind: Kind, default: object) -> Example:
    choices = (*([choice] for choice in kind.choices), *kind.choices)
    for value in (*choices, *CANDIDATES):
        if kind.accepts(value) and value != default:
            return Example(value, value)
    raise AssertionError("add an example of this key to EXAMPLES")


@pytest.mark.parametrize(("table", "key"), _list_keys(), ids=lambda value: getattr(value, "heading", value))
def test_the_value_of_every_key_reaches_its_struct(table: KeyTable, key: str) -> None:
    place = PLACES[table.heading]
    default = _sort(_find_field(place.find(_load(place.write({}))), key))
    example = EXAMPLES.get((table.heading, key)) or _find_example(table.keys[key].kind, default)
    assert _sort(example.read) != default
    found = _find_field(place.find(_load(place.write({key: example.written}))), key)
    assert _is_read_as(_sort(example.read), _sort(found))


def test_the_tables_below_a_table_are_covered() -> None:
    assert set(PLACES) == {table.heading for table in list_tables()}
    config = _load(_write_provider({"governance": {"tools": "auto"}, "sessions": {"limit": 3}}, PROGRAM))
    provider = config.providers["p"]
    assert (provider.governance.tools, provider.sessions) == ("auto", ClaudeCodeSessions(limit=3))


def test_a_program_without_an_address_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError, match='a provider of dialect "embedded" has no address and no key'):
        _load(_write_provider({}, {"dialect": "embedded", "base_url": "http://127.0.0.1:1"}))
