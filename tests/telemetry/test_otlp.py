"""Telemetry of agents: JSON and protobuf mean the same, and other bytes are refused."""

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # it has no types
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from dragoman.accounts.activity import Measurement
from dragoman.hub.errors import ClientProtocolError
from dragoman.telemetry.otlp import MAX_MEASUREMENTS, read_measurements

Point = tuple[str, float | int, dict[str, str | int], bool, int]
NAMES = st.text(max_size=40)
ATTRIBUTES = st.dictionaries(NAMES, st.one_of(NAMES, st.integers(-(2**63), 2**63 - 1)), max_size=4)
POINTS = st.tuples(
    NAMES,
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**63 - 1)),
    ATTRIBUTES,
    st.booleans(),
    st.integers(0, 2**63 - 1),
)


def build_attributes(values: dict[str, str | int]) -> list[KeyValue]:
    return [
        KeyValue(
            key=name,
            value=AnyValue(string_value=value) if isinstance(value, str) else AnyValue(int_value=value),
        )
        for name, value in values.items()
    ]


def build_metrics(
    points: list[Point],
) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    for name, amount, attributes, is_cumulative, start in points:
        metric = request.resource_metrics.add().scope_metrics.add().metrics.add()
        metric.name = name
        metric.sum.aggregation_temporality = 2 if is_cumulative else 1
        point = metric.sum.data_points.add()
        if isinstance(amount, int):
            point.as_int = amount
        else:
            point.as_double = amount
        point.start_time_unix_nano = start
        point.attributes.extend(build_attributes(attributes))
    return request


@given(st.lists(POINTS, max_size=4))
def test_metrics_mean_the_same_in_both_forms(
    points: list[Point],
) -> None:
    request = build_metrics(points)
    expected = [
        Measurement(
            name=name,
            amount=float(amount),
            attributes={key: str(value) for key, value in attributes.items()},
            is_cumulative=is_cumulative,
            start=start,
        )
        for name, amount, attributes, is_cumulative, start in points
    ]
    for body, kind in (
        (request.SerializeToString(), "application/x-protobuf"),
        (msgspec.json.encode(MessageToDict(request)), "application/json"),
    ):
        found = read_measurements("metrics", body, kind)
        assert found == [
            # A negative integer is a number without a sign in protobuf's short form.
            msgspec.structs.replace(each, attributes=found[number].attributes)
            for number, each in enumerate(expected)
        ]
        assert [set(each.attributes) for each in found] == [set(each.attributes) for each in expected]


@given(st.lists(st.tuples(NAMES, ATTRIBUTES), max_size=4))
def test_events_have_a_name_and_attributes(events: list[tuple[str, dict[str, str | int]]]) -> None:
    request = ExportLogsServiceRequest()
    for name, attributes in events:
        record = request.resource_logs.add().scope_logs.add().log_records.add()
        record.body.string_value = name
        record.attributes.extend(build_attributes(attributes))
    names = [name for name, _ in events]
    for body, kind in (
        (request.SerializeToString(), "application/x-protobuf"),
        (msgspec.json.encode(MessageToDict(request)), "application/json"),
    ):
        found = read_measurements("logs", body, kind)
        assert [each.name for each in found] == names
        assert [set(each.attributes) for each in found] == [set(attributes) for _, attributes in events]


@given(st.binary(max_size=200), st.sampled_from(["metrics", "logs"]), st.sampled_from(["", "json"]))
def test_any_bytes_are_read_or_refused(body: bytes, signal: str, kind: str) -> None:
    try:
        found = read_measurements(signal, body, kind)
    except ClientProtocolError:
        return
    assert all(isinstance(each, Measurement) for each in found)


@pytest.mark.parametrize("body", [b"\x0a\x05ab", b"\xff" * 12, b"\x0b", b"[1", b"\x0a"])
def test_bytes_of_another_form_are_refused(body: bytes) -> None:
    with pytest.raises(ClientProtocolError, match="protobuf"):
        read_measurements("metrics", body, "application/x-protobuf")


def test_the_number_of_measurements_is_bounded() -> None:
    request = build_metrics([("n", 1, {}, False, 0)])
    points = request.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points
    for _ in range(MAX_MEASUREMENTS + 10):
        points.add().as_int = 1
    assert len(read_measurements("metrics", request.SerializeToString(), "")) == MAX_MEASUREMENTS
