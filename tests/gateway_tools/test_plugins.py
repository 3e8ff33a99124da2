"""Tools of other packages: found by their entry point, configured in the file, used by any client."""

import re
from pathlib import Path

import msgspec
import pytest

from dragoman.config.load import load
from dragoman.exchange.gateway import Gateway
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.errors import ConfigError
from dragoman.hub.usage import Usage
from tests.cases.essence import read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, ScriptedUpstream
from tests.exchange.governing import question, script
from tests.gateway_tools.running import events_of_round, read_asked, texts_of_results

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "gateway-tools.md").read_text("utf-8")
PROVIDER = '[providers.up]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\n'


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the page, installed."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(code.splitlines()) <= 30
    (tmp_path / "weather_tool.py").write_text(code, "utf-8")
    info = tmp_path / "weather_tool-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-tool\nVersion: 1.0\n")
    (entry,) = re.findall(r'```toml\n\[project.entry-points."dragoman.tools"\]\n(.*?)```', PAGE, re.DOTALL)
    (info / "entry_points.txt").write_text("[dragoman.tools]\n" + entry.replace('"', ""))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("_package")
def test_the_tool_of_the_page_works() -> None:
    (table,) = re.findall(r"```toml\n(\[tools.plugins.weather\]\n.*?)```", PAGE, re.DOTALL)
    config = load(PROVIDER + '[[routes]]\nmatch = "*"\ntarget = "up"\n' + table, "dragoman.toml", {})
    calls = [
        ToolCall(id=f"call_{n}abcdefgh", name="weather", arguments=text)
        for n, text in enumerate(('{"city":"Oslo"}', '{"city":"Rome"}', "{}"))
    ]
    upstream = ScriptedUpstream(
        script("openai_chat", events_of_round(0, calls, Usage())),
        script("openai_chat", events_of_round(1, [Text(text="Cold.")], Usage())),
    )
    bench = Bench({"up": upstream})
    bench.gateway = Gateway(config, upstreams={"up": upstream})
    result = run(bench.run_exchange(question("anthropic")))
    assert read_essence("anthropic", result.client.body).text == "Cold."
    assert texts_of_results(read_asked("openai_chat", upstream.calls[1])) == [
        "-3 °C",
        "[tool error] Error: there is no station in this city; there are: oslo.",
        "[tool error] Error: the argument `city` must be a text that is not empty.",
    ]


@pytest.mark.usefixtures("_package")
def test_a_plugin_that_is_not_installed_is_a_mistake_in_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        load(PROVIDER + "[tools.plugins.wether]\n", "dragoman.toml", {})
    assert "line 4: tools.plugins.wether: no installed package has a tool of this name" in str(caught.value)
    assert "weather" in caught.value.hint


def test_a_route_cannot_select_a_tool_that_is_not_configured() -> None:
    route = '[[routes]]\nmatch = "m"\ntarget = "up"\ntools = ["web"]\n'
    with pytest.raises(ConfigError, match=r'line 7: .*no tool "web" is configured'):
        load(PROVIDER + route, "dragoman.toml", {})


def test_settings_without_a_tool_build_none() -> None:
    config = load(PROVIDER + "[tools]\nrounds = 3\n", "dragoman.toml", {})
    assert Gateway(config).snapshot.toolbox is None
    assert msgspec.structs.asdict(config.tools)["rounds"] == 3
