"""Contracts to begin with: right as they are, and of the signals that their traffic needs."""

import functools
import itertools
import re
from pathlib import Path

import pytest

from controlplane.slo.alert_windows import DAY, Severity
from controlplane.slo.alerting import thresholds
from controlplane.slo.preset import Preset, find_preset, presets
from controlplane.slo.prometheus.burning import RETENTION_SECONDS
from controlplane.slo.promised import Promise, promises_of
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.documents import load_documents
from controlplane.store.retention import Retention
from dataplane.contract_terms import ObjectiveSignal, is_measured_at
from tests.controlplane.slo.prometheus.promtool import check, write_rules

EACH = pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
_SIGNALS = {
    "interactive-chat": {"ttft", "tpot", "chunk_gap", "acceptance", "availability"},
    "long-generation": {
        "ttft", "first_answer", "tpot", "chunk_gap", "acceptance", "availability",
    },
    "prompt-heavy": {"ttft", "e2e", "acceptance", "availability"},
    "offline-batch": {"e2e", "availability"},
    "streaming-voice": {"ttft", "tpot", "chunk_gap", "acceptance", "availability"},
}  # fmt: skip


_VALUE = re.compile(r"\s+(- \{signal|together|boundary|window|min_events|off):?")


@functools.cache
def _spec(preset: Preset) -> SLOContractSpec:
    [document] = load_documents([(f"{preset.name}.yaml", preset.text)]).documents
    assert document.name == preset.name
    assert isinstance(document.spec, SLOContractSpec)
    return document.spec


def _promises(preset: Preset) -> list[Promise]:
    return list(promises_of("chat", f"{preset.name}@1", _spec(preset)))


@EACH
def test_a_preset_promises_what_its_traffic_needs_and_nothing_else(preset: Preset) -> None:
    found = {objective.signal.value for each in _spec(preset).classes.values()
             for objective in each.objectives}  # fmt: skip
    assert found == _SIGNALS[preset.name]


@EACH
def test_every_promise_of_a_preset_is_measured_and_can_page(preset: Preset) -> None:
    for promise in _promises(preset):
        if promise.objective in list(ObjectiveSignal):
            assert is_measured_at(ObjectiveSignal(promise.objective), _spec(preset).boundary)
        kept = [
            each.grade
            for each in thresholds(promise.target, promise.period_seconds, promise.alerting)
            if each.why_left_out is None
        ]
        assert any(grade.severity is Severity.PAGE for grade in kept), promise.name


@EACH
def test_the_rules_of_a_preset_are_right(preset: Preset, tmp_path: Path) -> None:
    check(tmp_path, write_rules(tmp_path, _spec(preset), f"{preset.name}@1"))


@EACH
def test_a_budget_of_a_preset_is_remembered_everywhere(preset: Preset) -> None:
    assert _spec(preset).window <= min(RETENTION_SECONDS, Retention().count_days * DAY)


@EACH
def test_every_value_of_a_preset_stands_below_a_reason(preset: Preset) -> None:
    lines = preset.text.splitlines()
    unexplained = [
        line
        for above, line in itertools.pairwise(lines)
        if _VALUE.match(line) and not above.lstrip().startswith("#")
    ]
    assert unexplained == []
    assert preset.purpose.endswith(".")


def test_a_name_that_no_preset_has_is_none() -> None:
    assert find_preset("chat") is None
