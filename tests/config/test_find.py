"""The configuration file is found in the documented places; without one the embedded model is served."""

from pathlib import Path

import pytest

from dragoman.config.config import Config
from dragoman.config.find import EMBEDDED, find_config, find_state_folder, list_config_places
from dragoman.config.settings import ServerSettings
from dragoman.hub.errors import ConfigError


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def port(path: Path, number: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[server]\nport = {number}\n", "utf-8")
    return path


def test_the_named_file_is_taken_before_all_others(elsewhere: Path) -> None:
    port(elsewhere / "dragoman.toml", 1)
    named = port(elsewhere / "named.toml", 2)
    environment = {"DRAGOMAN_CONFIG": str(port(elsewhere / "variable.toml", 3))}
    assert find_config(str(named), environment).server.port == 2


def test_the_variable_is_taken_before_the_working_directory(elsewhere: Path) -> None:
    port(elsewhere / "dragoman.toml", 1)
    environment = {"DRAGOMAN_CONFIG": str(port(elsewhere / "variable.toml", 3))}
    assert find_config(None, environment).server.port == 3


def test_the_working_directory_is_taken_before_the_settings(elsewhere: Path) -> None:
    port(elsewhere / "dragoman.toml", 1)
    port(elsewhere / "settings" / "dragoman" / "dragoman.toml", 4)
    environment = {"XDG_CONFIG_HOME": str(elsewhere / "settings")}
    assert find_config(None, environment).server.port == 1
    (elsewhere / "dragoman.toml").unlink()
    assert find_config(None, environment).server.port == 4


def test_the_settings_are_below_home_by_default(elsewhere: Path) -> None:
    port(elsewhere / ".config" / "dragoman" / "dragoman.toml", 5)
    assert find_config(None, {"HOME": str(elsewhere)}).server.port == 5


def test_a_variable_that_names_no_file_is_an_error(elsewhere: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        find_config(None, {"DRAGOMAN_CONFIG": str(elsewhere / "missing.toml")})


def test_without_any_file_everything_reaches_the_embedded_model(elsewhere: Path) -> None:
    config = find_config(None, {"HOME": str(elsewhere)})
    assert [target.provider for target in config.default] == [EMBEDDED]
    assert config.providers[EMBEDDED].dialect == EMBEDDED
    assert config.path == ""


def test_the_searched_places_can_be_listed() -> None:
    assert [path.name for path in list_config_places({"HOME": "x"})] == ["dragoman.toml", "dragoman.toml"]
    assert list_config_places({"DRAGOMAN_CONFIG": "y.toml"}) == [Path("y.toml")]


def test_secrets_may_be_missing_for_commands_that_need_none(elsewhere: Path) -> None:
    (elsewhere / "dragoman.toml").write_text('[server]\nkeys = ["env:NOT_SET"]\n', "utf-8")
    with pytest.raises(ConfigError, match="NOT_SET"):
        find_config(None, {})
    assert find_config(None, {}, secrets=False).server.keys[0].variable == "NOT_SET"


def test_the_state_folder_is_the_configured_one_or_the_users_own() -> None:
    named = Config(server=ServerSettings(state="/srv/kept"))
    assert find_state_folder(named, {"HOME": "/people/u"}) == Path("/srv/kept")
    assert find_state_folder(Config(), {"XDG_STATE_HOME": "/x", "HOME": "/people/u"}) == Path("/x/dragoman")
    assert find_state_folder(Config(), {"HOME": "/people/u"}) == Path("/people/u/.local/state/dragoman")
