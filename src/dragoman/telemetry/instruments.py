"""Counters and histograms, and the text in which Prometheus reads them.

The number of series that one instrument keeps is bounded, whatever its labels are made of.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

#: Series of one instrument; what is new beyond that is counted together.
MOST_SERIES = 2000
OTHERS = "(others)"

#: The text format that every version of Prometheus reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    """One number. `suffix` goes behind the instrument's name, `more` behind its labels."""

    labels: Labels
    value: float
    suffix: str = ""
    more: tuple[tuple[str, str], ...] = ()


class About(NamedTuple):
    """What an instrument measures."""

    name: str
    kind: Kind
    labels: Labels
    meaning: str


class Counter:
    """A sum for each combination of labels."""

    def __init__(self, name: str, labels: Labels, meaning: str) -> None:
        self.about = About(name, "counter", labels, meaning)
        self.sums: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        sums = self.sums
        if labels not in sums and len(sums) >= MOST_SERIES:
            labels = (OTHERS,) * len(labels)
        sums[labels] = sums.get(labels, 0) + amount

    def samples(self) -> Iterator[Sample]:
        for labels, value in self.sums.items():
            yield Sample(labels, value)


class Histogram:
    """How often a number was at most as large as each of the `bounds`, for each combination of labels."""

    def __init__(self, name: str, labels: Labels, meaning: str, bounds: Sequence[float]) -> None:
        self.about = About(name, "histogram", labels, meaning)
        self._bounds = tuple(bounds)
        self._series: dict[Labels, list[float]] = {}

    def add(self, labels: Labels, number: float) -> None:
        series = self._series.get(labels)
        if series is None:
            if len(self._series) >= MOST_SERIES:
                labels = (OTHERS,) * len(labels)
            # One for each bound, one for what lies beyond, and at the end the sum of all numbers.
            series = self._series.setdefault(labels, [0.0] * (len(self._bounds) + 2))
        series[bisect_left(self._bounds, number)] += 1
        series[-1] += number

    def mean(self, labels: Labels) -> float:
        """0 if there was no number."""
        series = self._series.get(labels, [0.0])
        return series[-1] / (sum(series[:-1]) or 1)

    def samples(self) -> Iterator[Sample]:
        for labels, series in self._series.items():
            count = 0.0
            for bound, more in zip((*self._bounds, float("inf")), series, strict=False):
                count += more
                yield Sample(labels, count, "_bucket", (("le", _number(bound)),))
            yield Sample(labels, series[-1], "_sum")
            yield Sample(labels, count, "_count")


def exposition(instruments: Iterable[tuple[About, Iterable[Sample]]]) -> str:
    """All samples, as Prometheus reads them."""
    lines: list[str] = []
    for about, samples in instruments:
        lines.append(f"# HELP {about.name} {about.meaning}")
        lines.append(f"# TYPE {about.name} {about.kind}")
        for labels, value, suffix, more in samples:
            pairs = [*zip(about.labels, labels, strict=True), *more]
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in pairs)
            lines.append(f"{about.name}{suffix}{f'{{{shown}}}' if shown else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
