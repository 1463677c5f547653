"""One table of names an exporter, and each name means one thing."""

import pytest

from dataplane import names
from dataplane.engine_metrics.alias import AliasTable
from dataplane.engine_metrics.resolve import VOCABULARIES
from dataplane.engine_metrics.signal import Signal, SignalKind
from dataplane.engine_metrics.tables import TABLES

EVERY = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.prefixes[0])


@EVERY
def test_names_begin_as_their_exporter_says(table: AliasTable) -> None:
    told = {alias.exported for alias in table.aliases} | {info.exported for info in table.infos}
    assert all(name.startswith(table.prefixes) for name in told)


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


def test_counters_of_the_shared_vocabulary_are_read_as_counters_and_histograms_as_histograms() -> (
    None
):
    kinds = {
        series.exported: series.kind.value
        for vocabulary in VOCABULARIES.values()
        for series in vocabulary.series
    }
    for table in TABLES:
        for alias in table.aliases:
            if alias.exported in kinds:
                assert alias.signal.terms.kind.value == kinds[alias.exported], alias.exported


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
