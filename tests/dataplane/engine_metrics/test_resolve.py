"""Names old and new, resolved to what they mean."""

import pytest

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.resolve import VOCABULARIES, find_vocabulary, resolve
from dataplane.engine_metrics.scrape import read_scrape
from dataplane.engine_metrics.series import EngineVocabulary
from dataplane.engine_metrics.sglang import SGLANG
from dataplane.engine_metrics.vllm import VLLM

EVERY = pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)


@EVERY
def test_every_name_stands_once_under_its_engines_prefix(vocabulary: EngineVocabulary) -> None:
    exported = [each.exported for each in vocabulary.series]
    assert len(exported) == len(set(exported))
    assert all(name.startswith(vocabulary.prefix) for name in exported)


@EVERY
def test_every_signal_has_a_name_of_ours_and_old_names_stand_behind_new_ones(
    vocabulary: EngineVocabulary,
) -> None:
    ours = {value for key, value in vars(signals).items() if key.isupper()}
    assert vocabulary.signals <= ours
    for signal in vocabulary.signals:
        series = vocabulary.of_signal(signal)
        outdated = [each.until is not None for each in series]
        assert outdated == sorted(outdated), signal
        assert len({each.unit for each in series}) == 1, signal


def test_a_renamed_series_is_found_under_its_old_name_and_told_to_be_old() -> None:
    found = resolve(VLLM, ["vllm:gpu_cache_usage_perc", "vllm:num_requests_running"])
    assert found.found[signals.KV_USED_RATIO].exported == "vllm:gpu_cache_usage_perc"
    assert [each.exported for each in found.outdated] == ["vllm:gpu_cache_usage_perc"]
    assert signals.WAITING in found.missing


def test_of_an_old_and_a_new_name_the_new_one_is_read() -> None:
    both = ["vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"]
    assert resolve(VLLM, both).found[signals.KV_USED_RATIO].exported == both[1]


def test_a_histogram_is_found_by_any_of_its_parts_and_an_unknown_series_is_told() -> None:
    found = resolve(VLLM, ["vllm:time_to_first_token_seconds_bucket", "vllm:brand_new_sum"])
    assert signals.TTFT in found.found
    assert found.unknown == ("vllm:brand_new",)


def test_an_engine_is_known_by_its_prefix_and_a_stranger_is_none() -> None:
    assert find_vocabulary(["sglang:num_queue_reqs", "python_info"]) is SGLANG
    assert find_vocabulary(["python_info", "http_requests_total"]) is None


def test_engines_side_by_side_add_up_and_one_can_be_asked_for() -> None:
    text = (
        'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
        'vllm:num_requests_running{engine="1",model_name="m"} 4.0\n'
        'vllm:num_requests_waiting{engine="0",model_name="m"} 9.0\n'
    )
    scrape = read_scrape(VLLM, text, {"vllm:num_requests_running"})
    assert scrape.parts == ("0", "1")
    assert scrape.total("vllm:num_requests_running") == 7
    assert scrape.total("vllm:num_requests_running", part="1") == 4
    assert scrape.total("vllm:num_requests_waiting") is None  # nobody wanted it


def test_copies_of_ranks_and_parts_beside_their_total_are_not_counted_again() -> None:
    name = "sglang:num_running_reqs"
    text = "".join(
        f'{name}{{dp_rank="{dp}",tp_rank="{tp}",priority="{priority}"}} 2.0\n'
        for dp in (0, 1)
        for tp in (0, 1)
        for priority in ("", "5")
    )
    assert read_scrape(SGLANG, text, {name}).total(name) == 4


def test_what_is_no_number_is_missing_and_not_zero() -> None:
    name = "vllm:kv_cache_usage_perc"
    scrape = read_scrape(VLLM, f'{name}{{engine="0"}} NaN\n', {name})
    assert scrape.total(name) is None
