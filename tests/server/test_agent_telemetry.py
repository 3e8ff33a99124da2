"""The receiver of agents' telemetry over real sockets."""

import gzip
from pathlib import Path

import msgspec
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from dragoman.accounts.activity import ActivityCounts, read_activity
from dragoman.server.agent_telemetry import MAX_BODY
from tests.server.keyholder import KeyHolder
from tests.server.running import config_for, running
from tests.upstream.byte_server import run

PROTOBUF = "application/x-protobuf"


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state.db")


def build_lines(added: int) -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.name = "claude_code.lines_of_code.count"
    metric.sum.aggregation_temporality = 1
    point = metric.sum.data_points.add()
    point.as_double = added
    for name, value in (("type", "added"), ("session.id", "s1")):
        attribute = point.attributes.add()
        attribute.key, attribute.value.string_value = name, value
    return bytes(request.SerializeToString())


def test_reports_of_both_forms_reach_the_activity_of_the_key(holder: KeyHolder) -> None:
    key = holder.create("ann")
    event = {
        "body": {"stringValue": "claude_code.tool_decision"},
        "attributes": [
            {"key": "decision", "value": {"stringValue": "reject"}},
            {"key": "session.id", "value": {"stringValue": "s1"}},
        ],
    }
    logs = msgspec.json.encode({"resourceLogs": [{"scopeLogs": [{"logRecords": [event]}]}]})

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            headers = {"authorization": f"Bearer {key}", "content-type": PROTOBUF}
            got = await gateway.ask("POST", "/v1/metrics", build_lines(12), headers)
            assert (got.status, got.body, got.headers["content-type"]) == (200, b"", PROTOBUF)
            packed = {**headers, "content-encoding": "gzip"}
            got = await gateway.ask("POST", "/v1/metrics", gzip.compress(build_lines(3)), packed)
            assert got.status == 200
            got = await gateway.ask("POST", "/v1/logs", logs, {**headers, "content-type": "application/json"})
            assert (got.status, got.body) == (200, b"{}")
            assert (await gateway.ask("POST", "/v1/traces", b"anything", headers)).status == 200
            assert (await gateway.ask("POST", "/v1/logs", b"\xff", headers)).status == 400
            assert (await gateway.ask("POST", "/v1/logs", b"x" * (MAX_BODY + 1), headers)).status == 413
            assert (await gateway.ask("POST", "/v1/metrics", build_lines(9))).status == 401
        found = dict(holder.do(lambda connection: read_activity(connection, ("key", "session"))))
        assert found == {("ann", "s1"): ActivityCounts(lines_added=15, tools_rejected=1)}

    run(scenario)
