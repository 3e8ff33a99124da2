"""Reads telemetry of agents: requests of OTLP/HTTP, as JSON or protobuf, into measurements. Pure and bounded.

Of metrics, the points of sums are read; of logs, the name and the attributes of each event. The protobuf
reader knows only the fields below. A dependency on the generated classes would be larger than this module.
"""

import struct
from collections.abc import Iterator

from dragoman.accounts.activity import Measurement
from dragoman.hub.errors import ClientProtocolError
from dragoman.wire.fields import decode

#: Measurements of one request. Further ones are ignored.
MAX_MEASUREMENTS = 10_000
#: Attributes of one point, and characters of one value.
MAX_ATTRIBUTES = 100
MAX_VALUE = 300

_CUMULATIVE = 2
_FIXED_SIZES = {1: 8, 5: 4}
_BYTES = 2

#: What is found in a message of protobuf: numbers, and parts of the data.
Field = int | bytes | memoryview
Json = dict[str, object]


def read_measurements(signal: str, body: bytes, content_type: str) -> list[Measurement]:
    """The measurements in a request for `metrics` or `logs`. Raises `ClientProtocolError` for other bytes."""
    is_json = "json" in content_type
    readers = {
        "metrics": _read_json_metrics if is_json else _read_metrics,
        "logs": _read_json_logs if is_json else _read_logs,
    }
    found: list[Measurement] = []
    try:
        for measurement in readers[signal](body):
            found.append(measurement)
            if len(found) >= MAX_MEASUREMENTS:
                break
    except (ValueError, TypeError, OverflowError, AttributeError, KeyError, struct.error):
        expected = "JSON" if is_json else "protobuf"
        raise ClientProtocolError(f"expected telemetry of OTLP as {expected}") from None
    return found


# JSON


def _read_json_metrics(body: bytes) -> Iterator[Measurement]:
    for metric in _list_inner(decode(body), "resourceMetrics", "scopeMetrics", "metrics"):
        total = _object(metric.get("sum"))
        is_cumulative = total.get("aggregationTemporality") in (
            _CUMULATIVE,
            "AGGREGATION_TEMPORALITY_CUMULATIVE",
        )
        for point in _objects(total.get("dataPoints")):
            # JavaScript loses digits of 64-bit integers, so JSON has them as strings.
            amount = point.get("asDouble", point.get("asInt", 0))
            yield Measurement(
                name=str(metric.get("name", "")),
                amount=float(amount) if isinstance(amount, int | float | str) else 0.0,
                attributes=_read_json_attributes(point),
                is_cumulative=is_cumulative,
                start=int(str(point.get("startTimeUnixNano", 0))),
            )


def _read_json_logs(body: bytes) -> Iterator[Measurement]:
    for record in _list_inner(decode(body), "resourceLogs", "scopeLogs", "logRecords"):
        name = _read_json_value(_object(record.get("body")))
        yield Measurement(name=name, amount=1, attributes=_read_json_attributes(record))


def _list_inner(value: object, *path: str) -> Iterator[Json]:
    """The objects at a path of nested lists: `path` has the name of the list on each level."""
    name, *rest = path
    for each in _objects(_object(value).get(name)):
        yield from _list_inner(each, *rest) if rest else [each]


def _read_json_attributes(holder: Json) -> dict[str, str]:
    pairs = _objects(holder.get("attributes"))[:MAX_ATTRIBUTES]
    return {str(each.get("key", "")): _read_json_value(_object(each.get("value"))) for each in pairs}


def _read_json_value(value: Json) -> str:
    text = next(iter(value.values()), "")
    return str(text)[:MAX_VALUE] if isinstance(text, str | int | float) else ""


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# Protobuf


def _read_metrics(body: bytes) -> Iterator[Measurement]:
    # Request.resource_metrics, ResourceMetrics.scope_metrics, ScopeMetrics.metrics
    for metric in _find_inner(memoryview(body), 1, 2, 2):
        fields = _group(metric)
        name = _text(fields.get(1))
        for total in fields.get(7, ()):
            inner = _group(total)
            is_cumulative = inner.get(2, [0])[-1] == _CUMULATIVE
            for point in inner.get(1, ()):
                values = _group(point)
                yield Measurement(
                    name=name,
                    amount=_read_amount(values),
                    attributes=_read_attributes(values.get(7, ())),
                    is_cumulative=is_cumulative,
                    start=_read_fixed(values.get(2), "<Q"),
                )


def _read_logs(body: bytes) -> Iterator[Measurement]:
    # Request.resource_logs, ResourceLogs.scope_logs, ScopeLogs.log_records
    for record in _find_inner(memoryview(body), 1, 2, 2):
        fields = _group(record)
        names = [_read_value(each) for each in fields.get(5, ())]
        yield Measurement(
            name=names[-1] if names else "", amount=1, attributes=_read_attributes(fields.get(6, ()))
        )


def _read_amount(values: dict[int, list[Field]]) -> float:
    if 4 in values:
        return float(struct.unpack("<d", bytes(_data(values[4][-1])))[0])
    return float(_read_fixed(values.get(6), "<q"))


def _read_fixed(values: list[Field] | None, form: str) -> int:
    return int(struct.unpack(form, bytes(_data(values[-1])))[0]) if values else 0


def _read_attributes(pairs: list[Field] | tuple[()]) -> dict[str, str]:
    attributes = {}
    for pair in pairs[:MAX_ATTRIBUTES]:
        fields = _group(pair)
        values = [_read_value(each) for each in fields.get(2, ())]
        attributes[_text(fields.get(1))] = values[-1] if values else ""
    return attributes


def _read_value(value: Field) -> str:
    """A value of any type as text: a string, a truth value or an integer; others are empty."""
    fields = _group(value)
    if 1 in fields:
        return _text(fields[1])
    numbers = fields.get(2) or fields.get(3)
    return str(numbers[-1]) if numbers and isinstance(numbers[-1], int) else ""


def _text(values: list[Field] | None) -> str:
    return bytes(_data(values[-1])).decode("utf-8", "replace")[:MAX_VALUE] if values else ""


def _find_inner(value: Field, *path: int) -> Iterator[Field]:
    """The nested protobuf messages at the end of this path of field numbers."""
    number, *rest = path
    for each in _group(value).get(number, ()):
        yield from _find_inner(each, *rest) if rest else [each]


def _group(value: Field) -> dict[int, list[Field]]:
    fields: dict[int, list[Field]] = {}
    for number, field in _read_fields(_data(value)):
        fields.setdefault(number, []).append(field)
    return fields


def _data(value: Field) -> bytes | memoryview:
    if isinstance(value, int):
        raise ValueError("expected a message")
    return value


def _read_fields(data: bytes | memoryview) -> Iterator[tuple[int, Field]]:
    """The fields of a message: their numbers and values. Values with a length are not copied."""
    place = 0
    while place < len(data):
        tag, place = _read_varint(data, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, place = _read_varint(data, place)
            yield number, value
            continue
        size = _FIXED_SIZES.get(kind)
        if size is None:
            if kind != _BYTES:
                raise ValueError("unknown wire type")
            size, place = _read_varint(data, place)
        if place + size > len(data):
            raise ValueError("cut short")
        yield number, data[place : place + size]
        place += size


def _read_varint(data: bytes | memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("cut short")
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number with too many bytes")
