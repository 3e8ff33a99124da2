"""Reads our metrics as Prometheus does."""

from collections.abc import Mapping

from prometheus_client import parser

#: A sample's name and its labels, in order.
Series = tuple[str, tuple[tuple[str, str], ...]]


class Scrape:
    """The samples of one page, and the kind of each family."""

    def __init__(self, page: str) -> None:
        self.kinds: dict[str, str] = {}
        self.samples: dict[Series, float] = {}
        for family in parser.text_string_to_metric_families(page):
            self.kinds[family.name] = family.type
            for name, labels, value, *_ in family.samples:
                series = (name, tuple(sorted(labels.items())))
                assert series not in self.samples, f"{series} stands there twice"
                self.samples[series] = value

    def value(self, name: str, /, **labels: str) -> float:
        """The sum of all samples of this name that have these labels, and perhaps others."""
        return sum(
            value
            for (sample, pairs), value in self.samples.items()
            if sample == name and labels.items() <= dict(pairs).items()
        )

    def of(self, name: str) -> Mapping[Series, float]:
        """All samples of one instrument."""
        names = (name, f"{name}_bucket", f"{name}_sum", f"{name}_count")
        return {series: value for series, value in self.samples.items() if series[0] in names}
