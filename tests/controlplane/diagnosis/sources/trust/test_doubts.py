"""Telemetry that is not what it seems is told to be so."""

import pytest

from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.signal import Signal


def _part(*texts: str, every: float = 10.0) -> Part:
    return series_of([Snapshot(at=index * every, text=text) for index, text in enumerate(texts)])


def _doubts(part: Part, kind: DoubtKind) -> list[Doubt]:
    return [doubt for doubt in part.doubts if doubt.kind is kind]


def _values(part: Part, signal: Signal) -> list[float]:
    (found,) = [each for each in part.series if each.signal is signal]
    return [reading.value for reading in found.readings]


def test_percent_under_the_name_of_a_ratio_is_read_as_percent_and_told() -> None:
    part = _part("vllm:kv_cache_usage_perc 0.9\n", "vllm:kv_cache_usage_perc 4.12\n")
    assert _values(part, Signal.KV_USAGE) == pytest.approx([0.009, 0.0412])
    (doubt,) = _doubts(part, DoubtKind.UNIT_GUESSED)
    assert "4.12" in doubt.what
    (series,) = part.series
    assert series.last.raw == "4.12"


@pytest.mark.parametrize("value", ["1.2", "140", "-0.1", "NaN", "+Inf"])
def test_a_value_that_cannot_be_is_left_out_and_told(value: str) -> None:
    part = _part("vllm:kv_cache_usage_perc 0.5\n", f"vllm:kv_cache_usage_perc {value}\n")
    assert _values(part, Signal.KV_USAGE) == [0.5]
    assert len(_doubts(part, DoubtKind.OUT_OF_RANGE)) == 1


def test_a_counter_that_fell_is_told_with_the_restart_that_its_process_tells() -> None:
    page = "process_start_time_seconds {}\nvllm:generation_tokens_total {}\n"
    part = _part(page.format(1700000000, 900), page.format(1700000400, 30))
    told = [doubt.what for doubt in _doubts(part, DoubtKind.COUNTER_RESET)]
    assert any("1700000000 -> 1700000400" in what for what in told)
    assert any("900 -> 30: its process restarted;" in what for what in told)


@pytest.mark.parametrize(
    "counts",
    [(900, 40, 905, 44, 910), (900, 905, 40, 44, 910, 915, 50, 54)],
    ids=["page by page", "two pages each"],
)
def test_a_counter_that_jumps_back_and_forth_is_of_several_processes(
    counts: tuple[int, ...],
) -> None:
    page = "vllm:generation_tokens_total {}\n"
    part = _part(*(page.format(each) for each in counts))
    (doubt,) = _doubts(part, DoubtKind.COUNTER_RESET)
    assert "several processes" in doubt.what


def test_a_young_process_that_crashes_again_and_again_is_one() -> None:
    page = "vllm:generation_tokens_total {}\n"
    part = _part(*(page.format(each) for each in (10, 50, 20, 40, 15, 35)))
    (doubt,) = _doubts(part, DoubtKind.COUNTER_RESET)
    assert "its process restarted" in doubt.what


def test_gauges_that_stay_while_nothing_is_counted_are_told() -> None:
    page = (
        "vllm:num_requests_running 106\n"
        "vllm:num_requests_waiting 15\n"
        "vllm:generation_tokens_total 7\n"
    )
    part = _part(page, page, page)
    told = {doubt.name: doubt.what for doubt in _doubts(part, DoubtKind.STUCK)}
    assert set(told) == {"vllm:num_requests_running", "vllm:num_requests_waiting"}
    assert "106 to the digit for 20 s" in told["vllm:num_requests_running"]


def test_a_share_that_stays_to_the_digit_while_tokens_are_selected_is_told() -> None:
    page = "vllm:kv_cache_usage_perc 0.4137\nvllm:generation_tokens_total {}\n"
    part = _part(*(page.format(each * 400) for each in range(6)), every=2)
    (doubt,) = _doubts(part, DoubtKind.STUCK)
    assert "nobody sets it" in doubt.what


@pytest.mark.parametrize("usage", ["1", "0.99", "0.97", "99"])
def test_a_full_batch_that_works_is_not_doubted(usage: str) -> None:
    page = (
        "vllm:num_requests_running 256\n"
        f"vllm:kv_cache_usage_perc {usage}\n"
        "vllm:generation_tokens_total {}\n"
    )
    part = _part(*(page.format(each * 400) for each in range(6)))
    assert _doubts(part, DoubtKind.STUCK) == []


def test_an_idle_engine_is_not_doubted() -> None:
    page = (
        "vllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\nvllm:generation_tokens_total 9\n"
    )
    assert _part(page, page, page, page).doubts == ()


def test_old_names_are_read_and_told() -> None:
    part = _part("vllm:gpu_cache_usage_perc 0.3\n")
    assert _values(part, Signal.KV_USAGE) == [0.3]
    (doubt,) = _doubts(part, DoubtKind.RENAMED)
    assert doubt.name == "vllm:gpu_cache_usage_perc"


def test_an_old_name_beside_the_new_one_that_says_something_else_is_told() -> None:
    part = _part("vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.3\n")
    assert _values(part, Signal.KV_USAGE) == [0.3]
    assert len(_doubts(part, DoubtKind.DUPLICATE)) == 1


def test_a_name_that_changes_in_between_is_one_series_and_told() -> None:
    part = _part("vllm:gpu_cache_usage_perc 0.3\n", "vllm:kv_cache_usage_perc 0.4\n")
    assert _values(part, Signal.KV_USAGE) == [0.3, 0.4]
    assert any("and then as" in doubt.what for doubt in _doubts(part, DoubtKind.RENAMED))


_LLAMACPP = (
    "llamacpp:prompt_tokens_total 5\nllamacpp:prompt_seconds_total 1\n"
    "llamacpp:tokens_predicted_total {predicted}\nllamacpp:tokens_predicted_seconds_total 1\n"
    "llamacpp:n_decode_total 3\nllamacpp:n_busy_slots_per_decode 1\n"
    "llamacpp:predicted_tokens_seconds {speed}\nllamacpp:requests_processing 0\n"
)


def test_a_series_that_every_version_has_is_missed_on_a_whole_page_and_not_in_an_extract() -> None:
    whole = _part(_LLAMACPP.format(predicted=7, speed=2) + "llamacpp:requests_delayed 3\n")
    (doubt,) = _doubts(whole, DoubtKind.MISSING)
    assert doubt.name == "llamacpp:requests_deferred"
    assert "llamacpp:requests_delayed is there, which is not known" in doubt.what
    assert _part("llamacpp:requests_processing 4\n").doubts == ()


def test_series_that_vanish_are_told_from_when_they_are_gone() -> None:
    full = "vllm:num_requests_running 1\nvllm:num_requests_waiting 2\n"
    part = _part(full, full, "vllm:num_requests_running 1\n")
    (doubt,) = _doubts(part, DoubtKind.MISSING)
    assert doubt.name == "vllm:num_requests_waiting"
    assert doubt.at == 10


def test_averages_since_the_last_scrape_are_doubted_where_others_scrape_or_no_build_resets() -> (
    None
):
    drained = _part(*(_LLAMACPP.format(predicted=each * 50, speed=0) for each in range(4)))
    assert any("somebody else scrapes" in doubt.what for doubt in drained.doubts)
    kept = _part(*(_LLAMACPP.format(predicted=50, speed=42.7) for _ in range(4)))
    assert any("does not reset" in doubt.what for doubt in kept.doubts)


def test_a_series_that_stands_twice_on_a_page_counts_once() -> None:
    part = _part("vllm:num_requests_running 3\nvllm:num_requests_running 5\n")
    assert _values(part, Signal.RUNNING) == [5]
    assert len(_doubts(part, DoubtKind.DUPLICATE)) == 1


def test_a_last_line_that_was_cut_off_is_left_out_where_other_pages_are_whole() -> None:
    whole = "vllm:num_requests_running 3\nvllm:generation_tokens_total 12345\n"
    part = _part(whole, whole[:-3])
    assert _values(part, Signal.GENERATION_TOKENS) == [12345]
    assert any("ends within a line" in doubt.what for doubt in part.doubts)
    assert _values(_part(whole[:-1]), Signal.GENERATION_TOKENS) == [12345]


def test_a_histogram_with_other_bounds_than_before_is_not_compared() -> None:
    page = (
        'vllm:time_to_first_token_seconds_bucket{{le="{}"}} 3\n'
        "vllm:time_to_first_token_seconds_count {}\n"
    )
    part = _part(page.format(1, 4), page.format(2, 9))
    (ttft,) = part.histograms
    assert ttft.observed.count == 9
    (doubt,) = _doubts(part, DoubtKind.COUNTER_RESET)
    assert "other bounds" in doubt.what


def test_buckets_that_fall_are_no_histogram() -> None:
    part = _part(
        'vllm:time_to_first_token_seconds_bucket{le="1"} 9\n'
        'vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4\n'
    )
    assert part.histograms == ()
    assert len(_doubts(part, DoubtKind.OUT_OF_RANGE)) == 1


def test_lines_that_cannot_be_read_are_told_with_their_place() -> None:
    part = series_of([Snapshot(at=0, text="a 1\n!! 2\n", place="saved.txt")])
    (doubt,) = part.doubts
    assert doubt.kind is DoubtKind.UNREADABLE
    assert doubt.what.startswith("line 2 of saved.txt")


def test_a_ratio_that_becomes_percent_is_read_as_percent_from_then_on() -> None:
    page = "vllm:kv_cache_usage_perc {}\n"
    part = _part(*(page.format(value) for value in (0.15, 0.2, 21.5, 18.0, 0.0)))
    assert _values(part, Signal.KV_USAGE) == pytest.approx([0.15, 0.2, 0.215, 0.18, 0.0])
    (doubt,) = _doubts(part, DoubtKind.UNIT_GUESSED)
    assert "from then on" in doubt.what
    assert doubt.at == 20


def test_samples_whose_own_time_stays_are_of_that_time() -> None:
    page = "vllm:num_requests_running {} {}\n"
    part = _part(*(page.format(each, 1_700_000_000_000) for each in range(4)))
    (doubt,) = _doubts(part, DoubtKind.STUCK)
    assert "one time, 1700000000," in doubt.what
    moving = _part(*(page.format(each, 1_700_000_000_000 + each) for each in range(4)))
    assert moving.doubts == ()
