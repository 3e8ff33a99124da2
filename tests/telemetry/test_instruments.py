"""Counters and histograms: values, text format, and the bound of their series."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.telemetry.instruments import MAX_SERIES, OTHERS, Counter, Histogram, write_exposition
from tests.telemetry.scrape import Scrape


def scraped(*instruments: Counter | Histogram) -> Scrape:
    return Scrape(write_exposition((each.info, each.samples()) for each in instruments))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 10**15))
def test_every_label_is_read_as_it_was_written(text: str, amount: int) -> None:
    counter = Counter("things_total", ("what",), "Things.")
    # The parser of the reference cuts lines where Python does, which the format does not.
    text = " ".join(text.splitlines())
    counter.add((text,), amount)
    assert scraped(counter).samples == {("things_total", (("what", text),)): amount}


def test_line_ends_in_labels_do_not_break_the_page() -> None:
    counter = Counter("things_total", ("what",), "Things.")
    counter.add(('a\nb"c\\d',))
    assert scraped(counter).samples == {("things_total", (("what", 'a\nb"c\\d'),)): 1}


def test_a_histogram_counts_what_is_at_most_as_large() -> None:
    histogram = Histogram("seconds", ("who",), "Seconds.", (1, 2.5))
    for number in (0.5, 1, 1.5, 2.5, 99):
        histogram.add(("me",), number)
    seen = scraped(histogram)
    buckets = [seen.value("seconds_bucket", who="me", le=le) for le in ("1", "2.5", "+Inf")]
    assert buckets == [2, 4, 5]
    assert (seen.value("seconds_count"), seen.value("seconds_sum")) == (5, 104.5)
    assert seen.kinds == {"seconds": "histogram"}
    assert histogram.mean(("me",)) == 104.5 / 5
    assert histogram.mean(("you",)) == 0


def test_the_number_of_series_is_bounded() -> None:
    counter = Counter("things_total", ("a", "b"), "Things.")
    histogram = Histogram("seconds", ("who",), "Seconds.", (1,))
    for number in range(MAX_SERIES + 50):
        counter.add((str(number), "x"))
        histogram.add((str(number),), 0.5)
    counter.add(("0", "x"))
    seen = scraped(counter, histogram)
    assert len(seen.of("things_total")) == MAX_SERIES + 1
    assert seen.value("things_total", a=OTHERS, b=OTHERS) == 50
    assert seen.value("things_total", a="0") == 2
    assert seen.value("seconds_count", who=OTHERS) == 50


def test_a_page_without_samples_is_still_a_page() -> None:
    counter = Counter("things_total", (), "Things.")
    assert write_exposition([(counter.info, counter.samples())]) == (
        "# HELP things_total Things.\n# TYPE things_total counter\n"
    )
