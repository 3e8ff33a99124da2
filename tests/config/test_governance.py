"""What the file, the environment and the presets ask of tool calls, and whose word counts."""

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.find import find_config
from dragoman.config.load import load
from dragoman.governance.settings import Governance, read_governance
from dragoman.hub.errors import ConfigError
from dragoman.providers.presets import load_presets
from dragoman.routing.choose import choose

LOCAL = '[providers.local]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
ROUTE = '[[routes]]\nmatch = "agent"\ntarget = "local/qwen"\n'
SERVERS = ("ollama", "lmstudio", "vllm", "llamacpp")


def loaded(text: str, **variables: str) -> Config:
    return load(text, "dragoman.toml", variables)


def asked_of(config: Config, model: str = "agent") -> Governance:
    """What holds for the first target of a model, as an exchange finds it out."""
    choice = choose(config, model)
    target = choice.targets[0]
    return config.providers[target.provider].find_governance(target.model, choice.route.governance)


def refusal(text: str) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return caught.value.message, caught.value.hint


def test_a_route_asks_for_its_own_models_only() -> None:
    config = loaded(LOCAL + ROUTE + "[routes.governance]\nrename = true\n")
    assert asked_of(config) == Governance(tools="hold", rename=True)
    assert asked_of(config, "local/qwen") == Governance(tools="hold")


@pytest.mark.rule("C16")
def test_the_route_counts_most_then_the_model_then_the_provider() -> None:
    text = f"""{LOCAL}
[providers.local.governance]
tools = "hold"
harvest = "auto"
rename = true

[providers.local.models."q*".governance]
harvest = "hermes"
dedupe = true

[providers.local.models."qwen"]
images = false
governance = {{ dedupe = false, validate = true }}

{ROUTE}
[routes.governance]
tools = "auto"
"""
    assert asked_of(loaded(text)) == Governance(tools="auto", harvest="hermes", rename=True, validate=True)
    assert asked_of(loaded(text), "local/other") == Governance(tools="hold", harvest="auto", rename=True)
    assert loaded(text).providers["local"].merge_facts("qwen") == {"images": False}


@pytest.mark.rule("C16", "C20")
@pytest.mark.parametrize("name", SERVERS)
def test_local_servers_are_mended_and_harvested_by_default(name: str) -> None:
    config = loaded(f"[providers.{name}]\n")
    expected = Governance(tools="hold", harvest="auto", rename=True)
    assert asked_of(config, f"{name}/any") == expected


#: Presets whose server runs the models of other vendors.
HOSTS = ("openrouter", "groq")


@pytest.mark.rule("C16", "G13")
@pytest.mark.parametrize("name", sorted(set(load_presets()) - set(SERVERS)))
def test_replies_of_a_vendors_own_api_stay_as_they_are(name: str) -> None:
    preset = load_presets()[name]
    config = loaded(f"[providers.{name}]\n", **({preset.key: "k"} if preset.key else {}))
    expected = Governance(tools="hold") if name in HOSTS else Governance()
    assert asked_of(config, f"{name}/any") == expected


@pytest.mark.rule("G13")
@pytest.mark.parametrize(
    ("address", "is_held"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("https://models.example.com/v1", True),
        ("https://notopenai.com/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://mine.openai.azure.com/openai/v1", False),
    ],
)
def test_calls_of_a_server_that_is_no_vendors_are_held_and_repaired(address: str, is_held: bool) -> None:
    text = f'[providers.mine]\ndialect = "openai_chat"\nbase_url = "{address}"\n'
    assert asked_of(loaded(text), "mine/any") == (Governance(tools="hold") if is_held else Governance())


@pytest.mark.rule("G12")
def test_a_family_that_does_not_exist_is_refused_with_a_hint() -> None:
    model = LOCAL + '[providers.local.models."qwen"]\ncall_family = "hermess"\n'
    assert refusal(model)[1] == 'did you mean "hermes"?'
    message, hint = refusal(LOCAL + '[providers.local.governance]\nharvest = "xyz"\n')
    assert 'or the name of a family, got "xyz"' in message
    assert hint.startswith("families: ")


@pytest.mark.parametrize("name", list(load_presets()))
def test_what_presets_ask_for_can_be_asked_for(name: str) -> None:
    read_governance(load_presets()[name].governance)


def test_a_local_server_can_be_left_alone() -> None:
    table = 'tools = "live"\nharvest = "off"\nrename = false\n'
    assert asked_of(loaded(f"[providers.ollama.governance]\n{table}"), "ollama/any").is_off


@pytest.mark.rule("R79", "C16")
@pytest.mark.parametrize("variable", ["DRAGOMAN_TOOL_ENHANCE", "RCC_TOOL_ENHANCE"])
def test_the_environment_switches_everybodys_defaults(variable: str) -> None:
    on = loaded("[providers.ollama]\n" + LOCAL + ROUTE, **{variable: "1"})
    assert asked_of(on) == Governance(tools="hold")
    assert asked_of(on, "ollama/any") == Governance(tools="hold", harvest="auto", rename=True)
    off = loaded("[providers.ollama]\n" + LOCAL + ROUTE, **{variable: "0"})
    assert asked_of(off).is_off
    assert asked_of(off, "ollama/any").is_off


@pytest.mark.rule("R79")
def test_what_a_table_states_outweighs_the_environment() -> None:
    text = LOCAL + '[providers.local.governance]\ntools = "live"\n' + ROUTE
    assert asked_of(loaded(text, DRAGOMAN_TOOL_ENHANCE="1")).is_off
    text = LOCAL + ROUTE + '[routes.governance]\ntools = "hold"\nrepair = true\n'
    assert asked_of(loaded(text, DRAGOMAN_TOOL_ENHANCE="0")) == Governance(tools="hold")


@pytest.mark.rule("R79")
def test_the_environment_counts_without_a_file_too(tmp_path: object) -> None:
    environment = {"HOME": str(tmp_path), "DRAGOMAN_TOOL_ENHANCE": "1"}
    config = find_config(None, {**environment, "XDG_CONFIG_HOME": str(tmp_path)})
    assert asked_of(config, "any") == Governance(tools="hold")


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(ConfigError, match="DRAGOMAN_TOOL_ENHANCE: expected 1, true, 0 or false, got 'maybe'"):
        loaded(LOCAL, DRAGOMAN_TOOL_ENHANCE="maybe")


@pytest.mark.parametrize(
    ("table", "line", "message", "hint"),
    [
        ('harvest = "hermess"', 8, 'harvest: expected "off", "auto", "model" or the name', '"hermes"'),
        ('tools = "holt"', 8, 'tools: expected one of "live", "hold", "auto", got "holt"', '"hold"'),
        ("tolls = 1", 8, "tolls: unknown key", '"tools"'),
        ("repair = 1", 8, "repair: expected true or false, got 1", ""),
        ("guard = 1", 8, "guard: expected a list of rules, got 1", ""),
        ("guard = [1]", 8, "guard: expected a list of rules, got a list", ""),
        ('guard = ["secret"]', 8, "guard[0].use: expected the name of a set of rules", '"secrets"'),
        (
            'guard = [\n  "secrets",\n  { verdict = "dney" },\n]',
            10,
            "guard[1].verdict: expected one of allow, deny",
            '"deny"',
        ),
        ('guard = [{ verdict = "deny", tols = ["a"] }]', 8, "guard[0]: unknown key 'tols'", '"tools"'),
        ('guard = [{ verdict = "deny", pattern = "(a" }]', 8, "guard[0].pattern: not a supported", ""),
    ],
)
@pytest.mark.parametrize("heading", ["[routes.governance]", "[providers.local.governance]"])
def test_what_is_wrong_is_reported_with_its_line_and_the_nearest_spelling(
    heading: str, table: str, line: int, message: str, hint: str
) -> None:
    text = f"{LOCAL}{ROUTE}{heading}\n{table}\n"
    place = "routes[0]" if "routes" in heading else "providers.local"
    error, advice = refusal(text)
    assert error.startswith(f"dragoman.toml, line {line}: {place}.governance.{message}")
    assert hint in advice


def test_a_governance_that_is_no_table_is_refused() -> None:
    error, _ = refusal(LOCAL + ROUTE + 'governance = "hold"\n')
    assert error == 'dragoman.toml, line 7: routes[0].governance: expected a table, got "hold"'


def test_rules_can_be_tables_of_their_own() -> None:
    text = f"""{LOCAL}{ROUTE}
[[routes.governance.guard]]
use = "git_destructive"
verdict = "ask"

[[routes.governance.guard]]
name = "no-curl"
tools = ["shell"]
command = ["curl"]
verdict = "deny"
"""
    rules = asked_of(loaded(text)).guard
    assert rules[-1].name == "no-curl"
    assert {rule.verdict for rule in rules[:-1]} == {"ask"}
    assert msgspec.structs.asdict(rules[-1])["command"] == ("curl",)
