"""Names old and new, and what a page says under them."""

import pytest

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.resolve import VOCABULARIES
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


def test_of_an_old_and_a_new_name_the_new_one_is_read_and_the_old_one_where_it_is_alone() -> None:
    new, old = (each.exported for each in VLLM.of_signal(signals.KV_USED_RATIO))
    assert (
        read_scrape(VLLM, f"{old} 0.1\n{new} 0.2\n", {old, new}).newest(signals.KV_USED_RATIO)
        == 0.2
    )
    assert read_scrape(VLLM, f"{old} 0.1\n", {old, new}).newest(signals.KV_USED_RATIO) == 0.1


def test_a_page_with_more_samples_than_any_engine_has_is_refused_before_it_is_parsed() -> None:
    name = "vllm:num_requests_running"
    page = "".join(f'{name}{{engine="{number}"}} 1.0\n' for number in range(5000))
    with pytest.raises(ValueError, match="5000 samples"):
        read_scrape(VLLM, page, {name})


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


def test_parts_without_a_total_beside_them_are_added_up() -> None:
    name = "sglang:num_running_reqs"
    text = "".join(f'{name}{{priority="{priority}"}} 2.0\n' for priority in (1, 5))
    assert read_scrape(SGLANG, text, {name}).total(name) == 4


def test_what_is_no_number_is_missing_and_not_zero() -> None:
    name = "vllm:kv_cache_usage_perc"
    scrape = read_scrape(VLLM, f'{name}{{engine="0"}} NaN\n', {name})
    assert scrape.total(name) is None
