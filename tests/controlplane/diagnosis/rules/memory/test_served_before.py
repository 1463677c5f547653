"""A log that begins with the failure does not say what came before; counters may."""

import pytest

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules.memory.stage import Stage, stage_by_order
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


@pytest.mark.parametrize(("tokens", "stage"), [(9000.0, Stage.SERVING), (0.0, Stage.UNKNOWN)])
def test_an_engine_that_generated_before_was_serving(tokens: float, stage: Stage) -> None:
    failed = LogEvent(kind=LogKind.OUT_OF_MEMORY, index=0, line="out of memory", at=60)
    counted = Series(
        signal=Signal.GENERATION_TOKENS,
        origin=Origin(kind=SourceKind.METRICS, name="tokens"),
        readings=(Reading(30, tokens, f"{tokens:g}"), Reading(58, tokens + 1, "")),
    )
    window = Window(start=30, end=90, series=(counted,), events=(failed,), lines=(failed.line,))
    assert stage_by_order(window, failed, None)[0] is stage
