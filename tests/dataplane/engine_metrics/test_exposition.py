"""Metrics text of all kinds of writers, read line by line."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dataplane.engine_metrics.exposition import (
    ExpositionReader,
    NotMetricsError,
    Page,
    split_scrapes,
)


def _read(text: str) -> Page:
    return ExpositionReader().read(text, "here")


def test_names_labels_values_and_timestamps_are_read() -> None:
    page = _read('a 1\nb{x="1",y="q\\"{}, #"} 2.5 1700000000000\nc\t+Inf\n')
    assert [(each.head.name, dict(each.head.labels)) for each in page.samples] == [
        ("a", {}),
        ("b", {"x": "1", "y": 'q"{}, #'}),
        ("c", {}),
    ]
    assert [each.value for each in page.samples] == [1, 2.5, math.inf]
    assert page.samples[1].timestamp == 1.7e9


def test_openmetrics_has_seconds_as_timestamps_and_exemplars_which_are_no_values() -> None:
    page = _read(
        "# TYPE a histogram\n"
        'a_bucket{le="1.0"} 5 # {trace_id="x"} 0.3 1700000000.1\n'
        "a_count 6 1700000000.5\na_created 1600000000\n# EOF\n"
    )
    assert [each.value for each in page.samples] == [5, 6, 1600000000]
    assert page.samples[1].timestamp == 1700000000.5
    assert page.names == {"a"}


def test_a_mark_like_that_of_an_exemplar_may_stand_in_a_label() -> None:
    assert dict(_read('a{b="x # {y}"} 1\n').samples[0].head.labels) == {"b": "x # {y}"}


def test_lines_that_are_no_samples_are_told_and_cost_only_themselves() -> None:
    page = _read('a 1\nb{x="1" 2\nc one\nd 1_000\ne 1 2 3\nf 7\n')
    assert [each.head.name for each in page.samples] == ["a", "f"]
    assert [bad.number for bad in page.bad_lines] == [2, 3, 4, 5]


def test_names_of_histograms_lose_their_suffix_and_others_keep_theirs() -> None:
    page = _read('a_bucket{le="1"} 1\na_sum 1\na_count 1\nb_count 3\n# TYPE c summary\nc_sum 1\n')
    assert page.names == {"a", "b_count", "c"}


def test_a_page_that_ends_within_a_line_says_so() -> None:
    assert _read("a 1\n").is_complete
    assert not _read("a 1\nb 12").is_complete
    assert _read("a 1\n# EOF").is_complete


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<html><head><title>502 Bad Gateway</title>", "an HTML page titled `502 Bad Gateway`"),
        ('\n[{"iter": 1}]', "is JSON"),
        ("upstream connect error\n", "whose first line is `upstream connect error`"),
    ],
)
def test_what_is_no_metrics_page_is_named_with_its_place(text: str, what: str) -> None:
    with pytest.raises(NotMetricsError, match="here is") as raised:
        _read(text)
    assert what in str(raised.value)
    assert raised.value.remedy


def test_an_empty_page_is_a_page_without_samples() -> None:
    assert _read("\n").samples == ()


def test_scrapes_that_were_appended_to_one_file_come_apart() -> None:
    one = '# TYPE a gauge\na{x="1"} 1\na{x="2"} 2\n'
    parts = list(split_scrapes(one + one + one))
    assert len(parts) == 3
    assert [len(_read(part).samples) for part in parts] == [2, 2, 2]
    assert parts[1].startswith("# TYPE a gauge\n")
    assert list(split_scrapes("")) == [""]


@pytest.mark.parametrize(
    "head",
    [
        "up",
        "a:b_total",
        'a{b="c"}',
        'a{b="c",}',
        "a{}",
        'a{b="",c="{}",le="+Inf"}',
        'a{b="é,=} x"}',
        'a{b="c\\"d\\\\"}',
    ],
)
def test_heads_are_read_as_the_library_reads_them(head: str) -> None:
    [sample] = ExpositionReader().read(f"{head} 1\n").samples
    [family] = text_string_to_metric_families(f"{head} 1\n")
    assert sample.head.name == family.samples[0].name
    assert sample.head.labels == family.samples[0].labels


@pytest.mark.parametrize("head", ['a{b="c"d="e"}', 'a{b="c",b="d"}', "a{b=c}"])
def test_a_head_that_the_library_refuses_is_a_bad_line(head: str) -> None:
    assert len(ExpositionReader().read(f"up 1\n{head} 1\n").bad_lines) == 1
