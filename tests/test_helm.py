"""The Helm chart: Helm accepts it, and what it renders is complete and fits the gateway."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.config.load import load

CHART = Path(__file__).resolve().parents[1] / "deploy" / "helm"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")

pytestmark = pytest.mark.skipif(HELM is None, reason="helm has no wheel for this platform")


def run_helm(*arguments: str) -> str:
    assert HELM is not None
    done = subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def render(*arguments: str) -> dict[str, Any]:
    """The objects of the chart by kind."""
    text = run_helm("template", "gw", str(CHART), "--namespace", "team", *arguments)
    return {each["kind"]: each for each in yaml.safe_load_all(text) if each}


def test_helm_accepts_the_chart() -> None:
    assert "0 chart(s) failed" in run_helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize("drain", [0, 120])
def test_the_configuration_is_valid_and_pods_end_after_their_streams(drain: int) -> None:
    objects = render("--set", f"drain={drain},workers=3,hosts={{gateway.example}}")
    text = objects["ConfigMap"]["data"]["dragoman.toml"]
    variables = {"DRAGOMAN_KEY": "k" * 20, "DRAGOMAN_STATE_URL": "postgresql://u:p@database:5432/dragoman"}
    config = load(text, "dragoman.toml", variables)
    assert config.warnings == ()
    assert (config.server.workers, config.server.drain) == (3, drain)
    assert "gateway.example" in config.server.hosts
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > drain
    container = pod["containers"][0]
    assert {each["name"] for each in container["env"]} == set(variables)
    for probe in ("livenessProbe", "readinessProbe"):
        (host,) = container[probe]["httpGet"]["httpHeaders"]
        assert host["value"] in config.server.hosts
    # The gateway writes only below its state folder and /tmp.
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert config.server.state in mounts
    assert set(mounts.values()) == {each["name"] for each in pod["volumes"]}


def test_the_objects_belong_together() -> None:
    objects = render("--set", "secrets={providers}")
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget"):
        selector = objects[kind]["spec"]["selector"]
        assert (selector.get("matchLabels") or selector).items() <= labels.items()
    container = objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert container["envFrom"] == [{"secretRef": {"name": "providers"}}]


def test_a_changed_configuration_starts_new_pods() -> None:
    sums = {
        render("--set", f"drain={drain}")["Deployment"]["spec"]["template"]["metadata"]["annotations"][
            "checksum/config"
        ]
        for drain in (10, 20)
    }
    assert len(sums) == 2
