"""The compose file: complete, consistent, and with a configuration that the gateway accepts."""

import re
from pathlib import Path

import yaml

from dragoman.config.load import load

ROOT = Path(__file__).resolve().parents[1]
FILE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
GATEWAYS = [name for name in FILE["services"] if name.startswith("gateway")]


def test_everything_that_a_service_names_exists() -> None:
    for service in FILE["services"].values():
        assert ("image" in service) != ("build" in service)
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in FILE["volumes"]
        for config in service.get("configs", ()):
            assert config["source"] in FILE["configs"]
        assert set(service.get("depends_on", ())) <= set(FILE["services"])
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_every_gateway_has_a_state_folder_and_the_proxy_knows_it() -> None:
    folders = [FILE["services"][name]["volumes"][0] for name in GATEWAYS]
    assert len(set(folders)) == len(GATEWAYS) == 2
    proxy = FILE["configs"]["proxy"]["content"]
    assert re.findall(r"server (\w+):8484", proxy) == GATEWAYS
    assert "proxy_buffering off" in proxy


def test_the_configuration_of_the_gateways_is_valid() -> None:
    variables = {
        "DRAGOMAN_KEY": "k" * 20,
        "DRAGOMAN_STATE_URL": "postgresql://dragoman:p@database:5432/dragoman",
    }
    config = load(FILE["configs"]["gateway"]["content"], "compose.yaml", variables)
    assert config.state.url is not None
    assert config.warnings == ()
    grace = FILE["services"][GATEWAYS[0]]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > config.server.drain


def test_the_image_can_reach_postgresql() -> None:
    assert "[postgres]" in (ROOT / "deploy" / "Containerfile").read_text("utf-8")
