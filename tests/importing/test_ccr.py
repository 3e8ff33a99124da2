"""claude-code-router's configuration becomes one that works, and nothing in it is dropped in silence."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.steps import StepSettings
from dragoman.exchange.selection import build_traits
from dragoman.hub.errors import ConfigError
from dragoman.importing.ccr import import_ccr
from dragoman.importing.draft import ConfigDraft
from dragoman.importing.transformers import TRANSFORMERS
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.routing.choose import choose
from dragoman.routing.explain import explain_route
from dragoman.routing.rules import compile_rules
from tests.importing.drafts import loaded, noted

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (written to a file, not bound)
FILE = Path(__file__).with_name("ccr.json")


def imported(config: dict[str, object] | None = None) -> ConfigDraft:
    text = FILE.read_text("utf-8") if config is None else msgspec.json.encode(config).decode()
    return import_ccr(text, "config.json")


CONFIG = loaded(imported())


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        ("claude-opus-5-5", "deepseek/deepseek-chat"),
        ("openrouter/google/gemini-2.5-pro", "openrouter/google/gemini-2.5-pro"),
    ],
)
def test_models_go_where_they_went(asked: str, target: str) -> None:
    assert [str(found) for found in choose(CONFIG, asked).targets] == [target]


def explained(config: Config, **members: object) -> str:
    """The target of a request of Claude Code."""
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"user-agent": "claude-cli/2.1.325"}
    plan = RequestPlan(
        RequestMetadata(dialect="anthropic", headers=headers), msgspec.json.encode(body | members)
    )
    plan.peek()
    traits = build_traits(config, plan, "", lambda: 0.0)
    found = explain_route(config, compile_rules(config.rules), traits, lambda rule, asked: "no function")
    return f"{found.rule}: {', '.join(found.targets)}"


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
THINKING: dict[str, object] = {"thinking": {"type": "adaptive"}}
SEARCH: dict[str, object] = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
TAG = "<CCR-SUBAGENT-MODEL>ollama,small</CCR-SUBAGENT-MODEL>You review."

LONG: dict[str, object] = {"messages": [{"role": "user", "content": "some word " * 60_000}]}

#: Requests in the order of the router's decisions, and where they go.
SCENARIOS: list[tuple[dict[str, object], str]] = [
    ({}, ": deepseek/deepseek-chat"),
    (THINKING, "think: deepseek/deepseek-reasoner"),
    (SEARCH | THINKING, "webSearch: gemini/gemini-2.5-flash"),
    ({"model": "claude-haiku-4-5-20251001", **THINKING}, "background: ollama/qwen2.5-coder:latest"),
    ({"system": TAG, **THINKING}, "tag: ollama/small"),
    (
        {"messages": [{"role": "user", "content": "some word " * 60_000}]},
        "longContext: openrouter/google/gemini-2.5-pro",
    ),
    ({"model": "ollama,big", **THINKING}, ": ollama/big"),
]


@pytest.mark.parametrize(("members", "expected"), SCENARIOS, ids=[expected for _, expected in SCENARIOS])
def test_requests_go_where_they_went(members: dict[str, object], expected: str) -> None:
    assert explained(CONFIG, **members) == expected


def test_an_image_goes_to_its_model() -> None:
    config = loaded(
        imported({"Providers": [provider("one")], "Router": {"default": "one,a", "image": "one,eyes"}})
    )
    assert explained(config, messages=[{"role": "user", "content": [IMAGE]}]) == "image: one/eyes"


def test_providers_keep_their_addresses_and_dialects() -> None:
    assert {name: (each.dialect, each.base_url) for name, each in CONFIG.providers.items()} == {
        "openrouter": ("openai_chat", "https://openrouter.ai/api/v1"),
        "deepseek": ("openai_chat", "https://api.deepseek.com/v1"),
        "ollama": ("openai_chat", "http://127.0.0.1:11434/v1"),
        "gemini": ("gemini", "https://generativelanguage.googleapis.com"),
        "model-scope": ("openai_chat", "https://api-inference.modelscope.cn/v1"),
        "claude": ("anthropic", "https://api.anthropic.com"),
    }


def test_secrets_become_variables_and_stand_nowhere() -> None:
    draft = imported()
    output = draft.build_text("a test") + noted(draft) + str(draft.variables)
    assert "literal-secret" not in output
    assert "house-key" not in output
    assert draft.variables == {
        "DRAGOMAN_KEY": "APIKEY",
        "OPENROUTER_API_KEY": "Providers[0].api_key",
        "DEEPSEEK_API_KEY": "",
        "GOOGLE_KEY": "",
        "MODEL_SCOPE_API_KEY": "Providers[4].api_key",
        "CLAUDE_API_KEY": "Providers[5].api_key",
    }
    assert CONFIG.providers["ollama"].keys == ()


def test_an_address_is_taken_over_without_the_secrets_in_it() -> None:
    address = "https://me:hidden@llm.example/v1/chat/completions?key=hidden"
    provider = {"name": "odd", "api_base_url": address, "api_key": "k", "models": ["m"]}
    draft = imported({"Providers": [provider], "Router": {"default": "odd,m"}})
    assert loaded(draft).providers["odd"].base_url == "https://llm.example/v1"
    assert "Providers[0] (odd)" in noted(draft)
    assert "hidden" not in draft.build_text("a test") + noted(draft)


def test_transformers_become_facts_and_governance() -> None:
    scope = CONFIG.providers["model-scope"]
    assert scope.build_profile("any").facts.max_output_tokens == 65_536
    assert scope.governance.tools == "hold"
    assert CONFIG.providers["deepseek"].find_governance("deepseek-chat", {}).choice == "required"


def test_options_become_payload_rules() -> None:
    assert [rule.default for rule in CONFIG.providers["model-scope"].payload] == [{"top_k": 5}]
    (rule,) = CONFIG.providers["openrouter"].payload
    assert rule.set == {"provider": {"only": ["moonshotai/fp8"]}}


def imported_with(variables: dict[str, str], config: dict[str, object]) -> ConfigDraft:
    return import_ccr(msgspec.json.encode(config).decode(), "config.json", variables)


def test_variables_in_addresses_and_numbers_are_filled_in() -> None:
    config: dict[str, object] = {
        "PORT": "$PORT",
        "API_TIMEOUT_MS": "${WAIT}000",
        "Providers": [{"name": "one", "api_base_url": "${BASE}/v1/chat/completions", "api_key": "$KEY"}],
    }
    variables = {"PORT": "4000", "WAIT": "60", "BASE": "https://llm.example", "KEY": "sk-never-written"}
    draft = imported_with(variables, config)
    provider = loaded(draft).providers["one"]
    assert (provider.base_url, provider.timeouts.total) == ("https://llm.example/v1", 60.0)
    assert loaded(draft).server.port == 4000
    assert "sk-never-written" not in draft.build_text("a test")
    report = noted(imported_with({}, config))
    for name in ("PORT", "BASE"):
        assert f"{name} is not set: `export {name}=…`, then import again" in report


def test_two_providers_never_share_a_name() -> None:
    draft = imported(
        {
            "Providers": [
                provider("a b"),
                provider("a-b"),
                {**provider("two"), "api_key": "x"},
                provider("two"),
            ],
            "Router": {"default": "a-b,m", "think": "a b,m"},
        }
    )
    assert list(draft.providers) == ["a-b", "a-b-2", "two"]
    assert (draft.routes["*"], draft.rules[-1]["target"]) == (["a-b-2/m"], "a-b/m")
    assert "Providers[1] (a-b): its name is 'a-b-2' here" in noted(draft)
    assert "Providers[3] (two): it replaces the provider above that has the same name" in noted(draft)
    assert "api_key" not in draft.providers["two"]


@pytest.mark.parametrize(
    ("config", "note"),
    [
        ({"PORT": "many"}, "PORT: left out: expected a number"),
        (
            {"API_TIMEOUT_MS": "long", "Providers": [{"name": "x", "api_base_url": "http://x/v1"}]},
            "API_TIMEOUT_MS",
        ),
        ({"Providers": ["text"]}, "Providers[0]: left out: it is no provider"),
        ({"Router": {"default": "x"}}, "Router.default: left out: expected provider,model"),
        (
            {"Providers": [{"name": "x", "api_base_url": "http://x/v1", "tokenizer": {}}]},
            "left out: tokenizer",
        ),
        (
            {"Providers": [{"name": "x", "api_base_url": "http://x/v1", "transformer": {"use": [3]}}]},
            "Providers[0].transformer: left out: what is no list of transformers",
        ),
        (
            {"Providers": [{"name": "x", "api_base_url": "http://x/v1", "transformer": {"m": "tooluse"}}]},
            "Providers[0].transformer.m: left out",
        ),
    ],
)
def test_what_cannot_be_read_is_noted(config: dict[str, object], note: str) -> None:
    assert note in noted(imported(config))


def test_a_threshold_that_is_no_number_is_noted() -> None:
    router = {"longContext": "one,m", "longContextThreshold": "many"}
    draft = imported({"Providers": [provider("one")], "Router": router})
    assert "Router.longContextThreshold: left out: expected a number" in noted(draft)
    assert draft.rules[0]["when"] == {"tokens_over": 60_000}


def test_the_options_of_sampling_replace_those_of_the_client() -> None:
    draft = use(["sampling", {"temperature": 0.1, "top_k": 5, "max_tokens": "900"}])
    one = loaded(draft).providers["one"]
    assert [rule.set for rule in one.payload] == [{"temperature": 0.1, "top_k": 5}]
    assert one.build_profile("m").facts.max_output_tokens == 900


def test_the_limit_of_deepseek_holds_at_other_addresses() -> None:
    assert loaded(use("deepseek")).providers["one"].build_profile("m").facts.max_output_tokens == 8192
    assert CONFIG.providers["deepseek"].build_profile("deepseek-chat").facts.max_output_tokens != 8192


def use(*transformers: object) -> ConfigDraft:
    """The draft of a provider whose model `m` has these transformers."""
    return imported({"Providers": [{**provider("one"), "transformer": {"m": {"use": list(transformers)}}}]})


def test_parameters_are_merged_as_the_router_does() -> None:
    options = {
        "top_k": 5,
        "extra": {"a": 1, "b": {"c": [2]}},
        "odd": {"x.y": 1},
        "none": None,
        "a.b": 1,
        "model": "x",
    }
    draft = use(["customparams", options], ["reasoning", {"enable": False}])
    first, second = loaded(draft).providers["one"].payload
    assert (first.models, first.set) == ("m", {"extra.a": 1, "extra.b.c": [2]})
    assert first.default == {"top_k": 5, "odd": {"x.y": 1}}
    assert second.set == {"thinking": {"type": "disabled"}, "enable_thinking": False}
    assert "transformer.m (customparams): left out: none, a.b, model" in noted(draft)


def test_a_secret_among_the_parameters_is_not_written() -> None:
    draft = use(["customparams", {"api_key": "sk-" + "abcdefghijklmnopqrstuvwx", "top_k": 5}])
    assert "sk-" not in draft.build_text("a test")
    assert "left out: api_key" in noted(draft)


@pytest.mark.parametrize("name", sorted(TRANSFORMERS))
def test_every_transformer_of_the_table_is_converted_or_listed(name: str) -> None:
    draft = use([name, {"max_tokens": 5}])
    config = loaded(draft)
    is_listed = f"({name})" in noted(draft)
    assert is_listed == TRANSFORMERS[name].equivalent.startswith("none")
    if name == "extrathinktag":
        assert config.providers["one"].find_governance("m", {}).harvest == "auto"


def test_a_transformer_without_a_row_is_listed() -> None:
    assert "(mine): dragoman has no such transformer" in noted(use("mine"))


def test_the_gateway_listens_where_the_router_did() -> None:
    server = CONFIG.server
    assert (server.host, server.port, len(server.keys)) == (ANY_ADDRESS, 3456, 1)


def test_what_was_sent_once_holds_for_every_provider_but_no_proxy_leads_to_this_machine() -> None:
    assert {each.timeouts.total for each in CONFIG.providers.values()} == {600.0}
    assert CONFIG.providers["claude"].proxy == "http://proxy.example:7890"
    assert CONFIG.providers["ollama"].proxy == ""


@pytest.mark.parametrize(
    "place",
    [
        "Providers[6] (vertex)",
        "LOG",
        "NON_INTERACTIVE_MODE",
        "CUSTOM_ROUTER_PATH",
    ],
)
def test_what_has_no_equivalent_is_noted(place: str) -> None:
    assert place in [note.place for note in imported().notes]


def test_an_unknown_key_is_noted() -> None:
    assert "FUTURE: there is no equivalent" in noted(imported({"FUTURE": {"a": 1}}))


def test_an_open_door_without_a_key_is_closed() -> None:
    draft = imported({"HOST": ANY_ADDRESS})
    assert loaded(draft).server.host == "127.0.0.1"
    assert "HOST" in noted(draft)


def test_a_route_to_a_provider_that_is_not_there_is_noted() -> None:
    draft = imported({"Router": {"default": "nobody,model"}})
    assert draft.routes == {}
    assert "Router.default: left out: there is no provider 'nobody'" in noted(draft)


def test_a_proxy_with_a_password_is_a_secret() -> None:
    provider = {"name": "x", "api_base_url": "https://api.example/v1/chat/completions"}
    draft = imported({"PROXY_URL": "http://me:hunter2@proxy.example:1", "Providers": [provider]})
    assert "hunter2" not in draft.build_text("a test")
    assert 'proxy = "env:PROXY_URL"' in draft.build_text("a test")


def test_two_secrets_get_two_variables_and_one_secret_one() -> None:
    address = "https://api.example/v1/chat/completions"
    providers = [{"name": "a.b", "api_base_url": address, "api_key": key} for key in ("one", "two")]
    providers.append({"name": "c", "api_base_url": address, "api_key": "one"})
    draft = imported({"Providers": providers})
    assert list(draft.variables) == ["A_B_API_KEY", "A_B_API_KEY_2"]


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"APIKEY": "my-secret"', "[" * 100_000])
def test_what_is_no_configuration_is_reported_without_its_words(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_ccr(text, "config.json")
    assert "config.json" in caught.value.message
    assert "my-secret" not in caught.value.message


@pytest.mark.parametrize(
    "config",
    [
        {"Providers": 5, "Router": [], "APIKEY": 7, "PORT": "many", "HOST": 1},
        {"Providers": [{}, {"name": 5}, {"api_base_url": "ftp://x"}, "text"]},
        {"Providers": [{"name": "//", "api_base_url": "http://x", "transformer": {"use": [[], [5], 7]}}]},
        {"Router": {"default": 5, "background": "x"}},
    ],
)
def test_odd_files_give_a_configuration_all_the_same(config: dict[str, object]) -> None:
    loaded(imported(config))


def test_an_unknown_kind_of_request_is_noted() -> None:
    assert "Router.dreaming: dragoman has no such route" in noted(imported({"Router": {"dreaming": "a,b"}}))


def test_equal_placeholders_of_two_servers_get_two_variables() -> None:
    # The router's own example has "sk-xxx" everywhere. One variable would send one server's key to another.
    providers = [
        {"name": name, "api_base_url": f"https://{name}.example/v1/chat/completions", "api_key": "sk-xxx"}
        for name in ("one", "two")
    ]
    draft = imported({"Providers": providers})
    assert [draft.providers[name]["api_key"] for name in ("one", "two")] == [
        "env:ONE_API_KEY",
        "env:TWO_API_KEY",
    ]


def provider(name: str) -> dict[str, object]:
    return {"name": name, "api_base_url": f"https://{name.replace(' ', '')}.example/v1/chat/completions"}


@pytest.mark.rule("M24")
def test_fallbacks_become_further_targets() -> None:
    config: dict[str, object] = {
        "Providers": [provider("one"), provider("two")],
        "Router": {"default": "one,a", "background": "one,small", "longContextThreshold": 9},
        "fallback": {"default": ["two,b", "nobody,c"], "background": ["two,small"], "think": ["two,d"]},
    }
    draft = imported(config)
    assert draft.routes == {"*": ["one/a", "two/b"]}
    assert draft.rules[-1] == {
        "name": "background",
        "when": {"model": "*haiku*"},
        "target": ["one/small", "two/small"],
    }
    assert "fallback.default[1]: left out: there is no provider 'nobody'" in noted(draft)
    assert "fallback.think: never used, because its route is not set" in noted(draft)
    loaded(draft)


@pytest.mark.rule("M24")
def test_a_provider_that_gets_another_name_is_noted() -> None:
    draft = imported({"Providers": [provider("my local")], "Router": {"default": "my local,m"}})
    assert draft.routes == {"*": ["my-local/m"]}
    assert "Providers[0] (my local): its name is 'my-local' here" in noted(draft)


@pytest.mark.rule("M24")
@pytest.mark.parametrize(("mode", "targets"), [("off", ["one/a"]), ("models", ["one/a", "two/b"])])
def test_version_3_has_its_models_in_a_profile(mode: str, targets: list[str]) -> None:
    claude = {"agent": "claude-code", "enabled": True, "model": "one/a", "haikuModel": "two/small"}
    config: dict[str, object] = {
        "Providers": [provider("one"), provider("two")],
        "Router": {"fallback": {"mode": mode, "models": ["two/b"]}, "rules": [{"id": "x"}]},
        "profile": {"profiles": [claude]},
        "trayIcon": "random",
        "theme": "system",
    }
    draft = imported(config)
    assert draft.routes["*"] == targets
    assert str(draft.rules[-1]["target"]).startswith(("two/small", "['two/small'"))
    assert "Router.rules: dragoman has no such route" in noted(draft)
    assert "trayIcon, theme: settings of the router's own application" in noted(draft)
    loaded(draft)


def test_forced_reasoning_becomes_a_step_for_the_provider_or_for_a_model() -> None:
    shared = {**provider("one"), "transformer": {"use": ["forcereasoning"], "m": {"use": ["forcereasoning"]}}}
    config = loaded(imported({"Providers": [shared]}))
    assert config.providers["one"].steps == ("force_reasoning", "force_reasoning_1")
    assert config.steps["force_reasoning_1"] == StepSettings(use="force_reasoning", models="m")


def list_leaves(value: object, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values that contain no others."""
    if isinstance(value, (dict, list)) and value:
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from list_leaves(inner, *path, name)
    else:
        yield path


def change_leaf(value: Any, path: tuple[str | int, ...]) -> Any:
    """The same configuration with another value at one place."""
    changed = msgspec.json.decode(msgspec.json.encode(value))
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    leaf = inner[path[-1]]
    if isinstance(leaf, bool):
        inner[path[-1]] = not leaf
    elif isinstance(leaf, int):
        inner[path[-1]] = leaf + 1
    else:
        inner[path[-1]] = leaf.replace("://", "://x") if "://" in leaf else f"x{leaf}"
    return changed


#: Comments, and commas after the last member.
_TOLERATED = re.compile(r"(?<!:)//.*|/\*.*?\*/|,(?=\s*[}\]])")
FULL = msgspec.json.decode(_TOLERATED.sub("", FILE.read_text("utf-8")))
LEAVES = [".".join(map(str, path)) for path in list_leaves(FULL)]
#: Secrets are never written, and names of models need no list: every model of a provider can be asked for.
UNSEEN = re.compile(r"APIKEY|Providers\.\d+\.api_key|Providers\.\d+\.models\.\d+")


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if not UNSEEN.fullmatch(leaf)])
def test_no_value_of_a_full_configuration_is_lost_in_silence(leaf: str) -> None:
    """Another value at one place leads to another configuration, or the report names the place."""
    path = next(path for path in list_leaves(FULL) if ".".join(map(str, path)) == leaf)
    draft = imported(change_leaf(FULL, path))
    places = {note.place.partition(" ")[0] for note in imported().notes}
    is_listed = str(path[0]) in places or f"{path[0]}[{path[1] if len(path) > 1 else ''}]" in places
    result = draft.build_text("a test") + noted(draft)
    assert is_listed or result != imported().build_text("a test") + noted(imported())


def test_a_first_configuration_with_placeholders_is_converted_whole() -> None:
    """Eight kinds of servers, as beginners have them: equal placeholders of keys, empty keys, all routes."""
    config: dict[str, object] = {
        "APIKEY": "choose-a-key",
        "LOG": True,
        "API_TIMEOUT_MS": 600000,
        "NON_INTERACTIVE_MODE": False,
        "Providers": [
            _provider("openrouter", "https://openrouter.ai/api/v1/chat/completions", "sk-…", "openrouter"),
            _provider("deepseek", "https://api.deepseek.com/chat/completions", "sk-…", "deepseek"),
            _provider("ollama", "http://localhost:11434/v1/chat/completions", "ollama"),
            _provider("gemini", "https://generativelanguage.googleapis.com/v1beta/models/", "sk-…", "gemini"),
            _provider("ark", "https://ark.example/api/v3/chat/completions", "sk-…", "deepseek"),
            _provider(
                "scope", "https://scope.example/v1/chat/completions", "", ["maxtoken", {"max_tokens": 9}]
            ),
            _provider("dash", "https://dash.example/v1/chat/completions", "", "enhancetool", "reasoning"),
            _provider("mix", "https://mix.example/v1/chat/completions", "sk-"),
        ],
        "Router": {
            "default": "deepseek,model",
            "background": "ollama,model",
            "think": "deepseek,model",
            "longContext": "openrouter,model",
            "longContextThreshold": 60000,
            "webSearch": "gemini,model",
        },
    }
    draft = imported(config)
    made = loaded(draft)
    assert list(made.providers) == [
        "openrouter",
        "deepseek",
        "ollama",
        "gemini",
        "ark",
        "scope",
        "dash",
        "mix",
    ]
    assert {"background", "think", "longContext", "webSearch"} <= {rule.name for rule in made.rules}
    assert [note.place for note in draft.notes] == ["LOG", "NON_INTERACTIVE_MODE"]
    assert len(draft.variables) == len({"APIKEY", "openrouter", "deepseek", "gemini", "ark", "mix"})


def _provider(name: str, url: str, key: str, *transformers: object) -> dict[str, object]:
    return {
        "name": name,
        "api_base_url": url,
        "api_key": key,
        "models": ["model"],
        "transformer": {"use": list(transformers)},
    }
