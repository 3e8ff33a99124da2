"""Counters and histograms, and the text format in which Prometheus reads them.

The number of series of one instrument is bounded, because labels can depend on input from outside.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

#: Series of one instrument. Further label values are counted together as `OTHERS`.
MAX_SERIES = 2000
OTHERS = "(others)"

#: The text format that all versions of Prometheus read.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
MetricKind = Literal["counter", "gauge", "histogram"]
Series = TypeVar("Series")


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


class Sum:
    """The number of one series of a counter. Add to `value`; a sum of 0 is not shown."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class Counter:
    """A sum for each combination of labels."""

    def __init__(self, name: str, labels: Labels, meaning: str) -> None:
        self.info = MetricInfo(name, "counter", labels, meaning)
        self._sums: dict[Labels, Sum] = {}

    def find(self, labels: Labels) -> Sum:
        """The sum of these labels. It stays the same, so a caller may keep it."""
        return _find_series(self._sums, labels, Sum)

    def add(self, labels: Labels, amount: float = 1) -> None:
        self.find(labels).value += amount

    def samples(self) -> Iterator[Sample]:
        for labels, series in self._sums.items():
            if series.value:
                yield Sample(labels, series.value)


class Distribution:
    """The numbers of one series of a histogram: one count for each bound, and one for larger numbers."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, number: float) -> None:
        self.counts[bisect_left(self.bounds, number)] += 1
        self.total += number


class Histogram:
    """Counts the numbers up to each of the `bounds`, for each combination of labels."""

    def __init__(self, name: str, labels: Labels, meaning: str, bounds: Sequence[float]) -> None:
        self.info = MetricInfo(name, "histogram", labels, meaning)
        self._bounds = tuple(bounds)
        self._series: dict[Labels, Distribution] = {}

    def find(self, labels: Labels) -> Distribution:
        """The numbers of these labels. They stay the same object, so a caller may keep it."""
        return _find_series(self._series, labels, lambda: Distribution(self._bounds))

    def add(self, labels: Labels, number: float) -> None:
        self.find(labels).add(number)

    def mean(self, labels: Labels) -> float:
        """The mean of the numbers; 0 if there are none."""
        series = self._series.get(labels)
        return series.total / (sum(series.counts) or 1) if series else 0.0

    def samples(self) -> Iterator[Sample]:
        for labels, series in self._series.items():
            if not any(series.counts):
                continue
            count = 0
            for bound, more in zip((*self._bounds, float("inf")), series.counts, strict=True):
                count += more
                yield Sample(labels, count, "_bucket", (("le", _format_number(bound)),))
            yield Sample(labels, series.total, "_sum")
            yield Sample(labels, count, "_count")


def _find_series(known: dict[Labels, Series], labels: Labels, build: Callable[[], Series]) -> Series:
    """The series of these labels. Beyond `MAX_SERIES`, new labels share one."""
    found = known.get(labels)
    if found is None:
        if len(known) >= MAX_SERIES:
            labels = (OTHERS,) * len(labels)
        found = known.setdefault(labels, build())
    return found


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
