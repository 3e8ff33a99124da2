"""What the doctor writes is what the configuration reads, and only the user may read it."""

import stat
from pathlib import Path

import pytest

from dragoman.config.load import load_file
from dragoman.doctor.findings import Examination, Facts, Finding
from dragoman.doctor.learned import write_learned
from dragoman.hub.errors import ConfigError

EXAMPLE = """\
[providers.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8901/v1"
"""
FACTS: Facts = {
    "images": False,
    "choices": ["auto", "none"],
    "stop_limit": 0,
    "call_family": "hermes",
    "price_input": 0.5,
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "dragoman.toml"
    file.write_text(EXAMPLE, "utf-8")
    return str(file)


def examination(model: str, facts: Facts, *, is_whole: bool = True) -> Examination:
    finding = Finding(name="some", state="helped", facts=facts)
    return Examination(target=f"local/{model}", findings=(finding,), is_whole=is_whole)


@pytest.mark.parametrize("model", ["plain", "with/slash:and-more", 'with "quotes" \\ and ünicode'])
def test_what_is_learned_is_known_the_next_time(path: str, model: str) -> None:
    write_learned(load_file(path, {}), examination(model, FACTS))
    provider = load_file(path, {}).providers["local"]
    assert provider.merge_facts(model) == FACTS
    assert dict(provider.list_sources(model))["learned"] == FACTS
    assert provider.merge_facts("another") == {}


def test_the_file_is_for_the_users_eyes_alone(path: str) -> None:
    written = write_learned(load_file(path, {}), examination("m", FACTS))
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert [each.name for each in written.parent.iterdir() if each.name.startswith(".")] == []


def test_models_that_were_learned_before_stay(path: str) -> None:
    config = load_file(path, {})
    write_learned(config, examination("first", {"images": False}))
    write_learned(config, examination("second", {"images": True}))
    provider = load_file(path, {}).providers["local"]
    assert (provider.merge_facts("first"), provider.merge_facts("second")) == (
        {"images": False},
        {"images": True},
    )


def test_a_whole_examination_replaces_what_was_known_and_a_broken_one_adds_to_it(path: str) -> None:
    config = load_file(path, {})
    write_learned(config, examination("m", {"images": False}))
    write_learned(config, examination("m", {"stop_limit": 0}, is_whole=False))
    assert load_file(path, {}).providers["local"].merge_facts("m") == {"images": False, "stop_limit": 0}
    write_learned(config, examination("m", {"stop_limit": 1}))
    assert load_file(path, {}).providers["local"].merge_facts("m") == {"stop_limit": 1}


def test_the_configuration_outweighs_what_was_learned(path: str) -> None:
    write_learned(load_file(path, {}), examination("m", {"images": False}))
    Path(path).write_text(EXAMPLE + '[providers.local.models."*"]\nimages = true\n', "utf-8")
    assert load_file(path, {}).providers["local"].merge_facts("m") == {"images": True}


def test_without_a_configuration_there_is_no_place_for_it(path: str) -> None:
    config = load_file(path, {})
    nowhere = type(config)(providers=config.providers)
    with pytest.raises(ConfigError) as caught:
        write_learned(nowhere, examination("m", FACTS))
    assert "dragoman setup" in caught.value.hint


def test_a_folder_that_cannot_be_written_to_is_reported(path: str) -> None:
    config = load_file(path, {})
    elsewhere = type(config)(providers=config.providers, path=str(Path(path).parent / "missing" / "x.toml"))
    with pytest.raises(ConfigError, match="cannot write"):
        write_learned(elsewhere, examination("m", FACTS))


COMMENTED = """\
# my own heading

# a small model
[providers.local.models.small] # on the old machine
images = true # checked by hand
# the server changed in May
stop_limit = 4

[providers.other.models."a/b"]
audio = false # never tested
"""


def test_comments_and_other_tables_survive(path: str) -> None:
    file = Path(path).with_suffix(".learned.toml")
    file.write_text(COMMENTED, "utf-8")
    write_learned(load_file(path, {}), examination("small", {"images": False, "stop_limit": 4}))
    assert file.read_text("utf-8") == COMMENTED.replace("images = true", "images = false")


def test_comments_survive_when_a_model_is_added(path: str) -> None:
    file = Path(path).with_suffix(".learned.toml")
    file.write_text(COMMENTED, "utf-8")
    write_learned(load_file(path, {}), examination("new", {"images": False}))
    lines = file.read_text("utf-8").splitlines()
    assert [line for line in COMMENTED.splitlines() if line not in lines] == []
    assert load_file(path, {}).providers["local"].merge_facts("new") == {"images": False}


@pytest.mark.parametrize(
    "text",
    [
        "[providers.local]\nmodels.old.images = false\n",
        "providers.local.models.old.images = false\n",
        "[providers]\nlocal = { models = { old = { images = false } } }\n",
        "[providers.local.models.old]\nimages = false\n[providers.b.models.x]\n[providers.local.models.y]\n",
    ],
)
def test_every_form_of_table_can_be_extended(path: str, text: str) -> None:
    file = Path(path).with_suffix(".learned.toml")
    file.write_text(text, "utf-8")
    write_learned(load_file(path, {}), examination("new", FACTS))
    provider = load_file(path, {}).providers["local"]
    assert (provider.merge_facts("new"), provider.merge_facts("old")) == (FACTS, {"images": False})


def test_a_model_without_facts_has_no_table(path: str) -> None:
    config = load_file(path, {})
    written = write_learned(config, examination("m", {"images": False}))
    write_learned(config, examination("m", {}))
    assert "[" not in written.read_text("utf-8")
