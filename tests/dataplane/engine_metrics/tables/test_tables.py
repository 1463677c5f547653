"""One table of names an exporter, and each name means one thing."""

import pytest

from dataplane import names
from dataplane.engine_metrics.alias import AliasTable
from dataplane.engine_metrics.signal import Signal, SignalKind
from dataplane.engine_metrics.tables import TABLES
from dataplane.engine_metrics.tables.llamacpp import LLAMACPP
from dataplane.engine_metrics.tables.sglang import SGLANG
from dataplane.engine_metrics.tables.vllm import VLLM
from pilothouse_llamacpp import gauges as llamacpp
from pilothouse_sglang import gauges as sglang
from pilothouse_vllm import gauges as vllm

EVERY = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.prefixes[0])


@EVERY
def test_names_begin_as_their_exporter_says(table: AliasTable) -> None:
    assert all(name.startswith(table.prefixes) for name in table.names)


@EVERY
def test_what_is_known_and_not_read_is_read_nowhere(table: AliasTable) -> None:
    assert not {alias.exported for alias in table.aliases} & set(table.unread)
    assert len(set(table.unread)) == len(table.unread)


@EVERY
def test_a_name_tells_a_signal_once_for_the_same_labels(table: AliasTable) -> None:
    seen = [
        (alias.exported, alias.signal, tuple(alias.fixed.items()), str(alias.only))
        for alias in table.aliases
    ]
    assert len(seen) == len(set(seen))


@EVERY
def test_what_is_expected_is_what_some_name_of_the_table_tells(table: AliasTable) -> None:
    assert table.expected <= table.signals


@EVERY
def test_current_names_stand_before_old_ones(table: AliasTable) -> None:
    for signal in table.signals:
        is_old = [alias.until is not None for alias in table.aliases if alias.signal is signal]
        assert is_old == sorted(is_old), signal


@EVERY
def test_a_name_that_ends_like_a_counters_is_no_gauges(table: AliasTable) -> None:
    told = {a.exported: a.signal.terms.kind for a in table.aliases if a.exported.endswith("_total")}
    gauges = {name for name, kind in told.items() if kind is SignalKind.GAUGE}
    assert gauges == set()


def test_another_name_of_the_same_is_found_and_a_part_of_it_is_none() -> None:
    by_name = {alias.exported: alias for alias in VLLM.aliases}
    new, old = by_name["vllm:kv_cache_usage_perc"], by_name["vllm:gpu_cache_usage_perc"]
    assert new.is_another_name_of(old)
    assert old.is_another_name_of(new)
    assert not new.is_another_name_of(new)
    cached = by_name["vllm:prompt_tokens_cached_total"]
    assert not any(each.is_another_name_of(cached) for each in VLLM.aliases)


def test_what_took_the_place_of_a_name_is_another_name_though_it_counts_otherwise() -> None:
    by_name = {alias.exported: alias for alias in SGLANG.aliases}
    now, before = (
        by_name["sglang:num_retracted_requests_total"],
        by_name["sglang:num_retracted_reqs"],
    )
    assert now.is_another_name_of(before)
    assert before.is_another_name_of(now)


def test_each_metric_of_a_replica_process_is_read() -> None:
    known = {alias.exported for table in TABLES for alias in table.aliases}
    ours = {
        value
        for key, value in vars(names).items()
        if key.startswith("REPLICA_") and value != names.REPLICA_INFO
    }
    # Decode steps are what output tokens count already.
    assert ours - known == {names.REPLICA_SCHEDULED_DECODE_STEPS_TOTAL}


def test_gauges_and_counters_have_one_unit_and_one_kind() -> None:
    assert {signal.terms.kind for signal in Signal} == set(SignalKind)


@pytest.mark.parametrize(
    ("table", "signals"),
    [(VLLM, vllm.SIGNALS), (SGLANG, sglang.SIGNALS), (LLAMACPP, llamacpp.SIGNALS)],
    ids=["vllm", "sglang", "llamacpp"],
)
def test_what_an_adapter_reads_is_what_its_engine_tells(
    table: AliasTable, signals: frozenset[Signal]
) -> None:
    set_in_labels = {signal for info in table.infos for signal in info.signals.values()}
    assert signals <= table.signals | set_in_labels
