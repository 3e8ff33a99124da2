"""Counters and histograms, and the text format in which Prometheus reads them.

The number of series of one instrument is bounded, because labels can depend on input from outside.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

#: Series of one instrument. Further label values are counted together as `OTHERS`.
MAX_SERIES = 2000
OTHERS = "(others)"

#: The text format that all versions of Prometheus read.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
MetricKind = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    """One number. `suffix` is appended to the name of the metric, `more` to its labels."""

    labels: Labels
    value: float
    suffix: str = ""
    more: tuple[tuple[str, str], ...] = ()


class MetricInfo(NamedTuple):
    """The name, kind, label names and meaning of a metric."""

    name: str
    kind: MetricKind
    labels: Labels
    meaning: str


class Counter:
    """A sum for each combination of labels."""

    def __init__(self, name: str, labels: Labels, meaning: str) -> None:
        self.info = MetricInfo(name, "counter", labels, meaning)
        self.sums: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        known = self.sums.get(labels)
        if known is None:
            if len(self.sums) >= MAX_SERIES:
                labels = (OTHERS,) * len(labels)
            known = self.sums.get(labels, 0)
        self.sums[labels] = known + amount

    def samples(self) -> Iterator[Sample]:
        for labels, value in self.sums.items():
            yield Sample(labels, value)


class Histogram:
    """Counts the numbers up to each of the `bounds`, for each combination of labels."""

    def __init__(self, name: str, labels: Labels, meaning: str, bounds: Sequence[float]) -> None:
        self.info = MetricInfo(name, "histogram", labels, meaning)
        self._bounds = tuple(bounds)
        self._series: dict[Labels, list[float]] = {}

    def add(self, labels: Labels, number: float) -> None:
        series = self._series.get(labels)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                labels = (OTHERS,) * len(labels)
            # One count for each bound, one for larger numbers, and last the sum of all numbers.
            series = self._series.setdefault(labels, [0.0] * (len(self._bounds) + 2))
        series[bisect_left(self._bounds, number)] += 1
        series[-1] += number

    def mean(self, labels: Labels) -> float:
        """The mean of the numbers; 0 if there are none."""
        series = self._series.get(labels, [0.0])
        return series[-1] / (sum(series[:-1]) or 1)

    def samples(self) -> Iterator[Sample]:
        for labels, series in self._series.items():
            count = 0.0
            for bound, more in zip((*self._bounds, float("inf")), series, strict=False):
                count += more
                yield Sample(labels, count, "_bucket", (("le", _format_number(bound)),))
            yield Sample(labels, series[-1], "_sum")
            yield Sample(labels, count, "_count")


def write_exposition(metrics: Iterable[tuple[MetricInfo, Iterable[Sample]]]) -> str:
    """All samples in the text format of Prometheus."""
    lines: list[str] = []
    for info, samples in metrics:
        lines.append(f"# HELP {info.name} {info.meaning}")
        lines.append(f"# TYPE {info.name} {info.kind}")
        for labels, value, suffix, more in samples:
            pairs = [*zip(info.labels, labels, strict=True), *more]
            text = ",".join(f'{name}="{_escape(label)}"' for name, label in pairs)
            lines.append(f"{info.name}{suffix}{f'{{{text}}}' if text else ''} {_format_number(value)}")
    return "\n".join(lines) + "\n"


def _format_number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
