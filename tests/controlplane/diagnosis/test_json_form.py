"""A diagnosis as programs read it."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.json_form import diagnosis_as_json
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


@pytest.mark.parametrize(
    ("mechanism", "is_told"), [(Mechanism.HEALTHY, False), (Mechanism.QUEUE_OVERLOAD, True)]
)
def test_since_when_is_told_of_what_is_wrong(mechanism: Mechanism, is_told: bool) -> None:
    def judge(window: Window) -> Verdict:
        argument = Argument(window)
        argument.series(window.find(Signal.WAITING))
        return argument.verdict(Confidence.LIKELY)

    rule = Rule(
        id="it", mechanism=mechanism, judge=judge, needs=(), told_apart="", remedy="", hides=""
    )
    values = [0.0, 1.0] * 12 + [30.0, 31.0] * 12
    waiting = Series(
        signal=Signal.WAITING,
        origin=Origin(kind=SourceKind.METRICS, name="vllm:num_requests_waiting"),
        readings=tuple(Reading(5.0 * i, value, f"{value:g}") for i, value in enumerate(values)),
    )
    told = diagnosis_as_json(diagnose(Window(start=0.0, end=240.0, series=(waiting,)), (rule,)))
    assert (told["since"] is not None) == is_told
