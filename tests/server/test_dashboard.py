"""The dashboard uses only metrics that the gateway has."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.server.metrics import LIVE_METRICS
from dragoman.telemetry.metrics import Metrics

FILE = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "dragoman.json"
DASHBOARD: dict[str, Any] = msgspec.json.decode(FILE.read_bytes())

#: Labels that Prometheus itself adds, and that of a histogram's steps.
ADDED = {"job", "instance", "le"}
KNOWN = {
    info.name: info
    for info in (
        *(each.info for each in Metrics(Config).instruments),
        *(look.info for look in LIVE_METRICS),
    )
}
SERIES = {
    series: info
    for name, info in KNOWN.items()
    for series in ([f"{name}_bucket", f"{name}_sum", f"{name}_count"] if info.kind == "histogram" else [name])
}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
VARIABLES = DASHBOARD["templating"]["list"]
EXPRESSIONS += [(each["name"], each["definition"]) for each in VARIABLES if each["type"] == "query"]

_SERIES = re.compile(r"\b(?:dragoman|process)_\w+")
_SELECTOR = re.compile(r"\b((?:dragoman|process)_\w+)\{([^}]*)\}")
_GROUPS = re.compile(r"\b(?:by|on|group_left) \(([^)]*)\)")


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])
def test_every_expression_asks_for_metrics_and_labels_that_exist(title: str, expression: str) -> None:
    series = _SERIES.findall(expression)
    assert series
    assert [name for name in series if name not in SERIES] == []
    labels = ADDED.union(*(SERIES[name].labels for name in series))
    for name, selector in _SELECTOR.findall(expression):
        asked = re.findall(r"(\w+)(?:=~|!~|!=|=)", selector)
        assert set(asked) <= {*SERIES[name].labels, *ADDED}
    for group in _GROUPS.findall(expression):
        assert {label.strip() for label in group.split(",")} <= labels


def test_legends_show_labels_that_their_expressions_keep() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            kept = {label.strip() for group in _GROUPS.findall(target["expr"]) for label in group.split(",")}
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= kept | {"instance"}, panel["title"]


def test_every_metric_is_on_the_dashboard() -> None:
    asked = " ".join(expression for _, expression in EXPRESSIONS)
    names = {SERIES[series].name for series in _SERIES.findall(asked)}
    assert set(KNOWN) - names == set()


def test_counters_are_shown_as_rates_and_variables_are_declared() -> None:
    declared = {each["name"] for each in VARIABLES} | {"__rate_interval"}
    for title, expression in EXPRESSIONS:
        assert set(re.findall(r"\$(\w+)", expression)) <= declared
        if title in {each["name"] for each in VARIABLES}:
            continue
        for name in _SERIES.findall(expression):
            if SERIES[name].kind == "counter":
                assert re.search(rf"(?:rate|increase)\({name}\b", expression), title


def test_the_dashboard_names_no_data_source_of_ours_and_its_panels_do_not_overlap() -> None:
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells
