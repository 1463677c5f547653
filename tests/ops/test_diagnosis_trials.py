"""What the bench of the diagnosis tries is all that the simulator can do, and can be simulated."""

from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

from controlplane.diagnosis.mechanism import Mechanism
from controlplane.specs.scenario_faults import FaultSpec
from ops.diagnosis.fleets import compile_trial
from ops.diagnosis.outcomes import Look, Outcome, matrix, summarize
from ops.diagnosis.picture import draw
from ops.diagnosis.trials import CONTROLS, FAULTS


def test_every_fault_of_the_simulator_is_tried_at_three_intensities() -> None:
    specs = get_args(get_args(FaultSpec)[0])
    known = {get_args(spec.model_fields["fault"].annotation)[0] for spec in specs}
    tried = {fault["fault"] for trial in FAULTS for level in trial.levels for fault in level}
    assert tried == known
    assert {len(trial.levels) for trial in FAULTS} == {3}


def test_every_trial_is_a_scenario() -> None:
    for trial in (*FAULTS, *CONTROLS):
        for level in range(len(trial.levels)):
            assert compile_trial(trial, level, seed=1).fleet.seed == 1


def _outcome(trial: str, right: Mechanism, *answers: Mechanism, is_seen: bool = True) -> Outcome:
    looks = tuple(
        Look(seconds=10.0 * place, mechanism=answer, second=None, evidence=())
        for place, answer in enumerate(answers, start=1)
    )
    return Outcome(
        trial=trial, level=0, seed=1, dialect="vllm", right=(right,), is_seen=is_seen, looks=looks
    )


OUTCOMES = (
    _outcome("overload", Mechanism.QUEUE_OVERLOAD, Mechanism.HEALTHY, Mechanism.QUEUE_OVERLOAD),
    _outcome("overload", Mechanism.QUEUE_OVERLOAD, Mechanism.QUEUE_OVERLOAD, Mechanism.HEALTHY),
    _outcome(
        "overload", Mechanism.QUEUE_OVERLOAD, Mechanism.CANNOT_TELL, Mechanism.CACHE_THRASH,
        is_seen=False,
    ),
    _outcome("busy", Mechanism.HEALTHY, Mechanism.HEALTHY, Mechanism.CACHE_THRASH),
)  # fmt: skip


def test_the_last_look_counts_and_the_first_right_one_is_the_detection() -> None:
    summary = summarize(OUTCOMES)
    assert (summary.num_faults, summary.share_right) == (2, 0.5)
    assert summary.median_detection_seconds == 20
    assert (summary.num_windows, summary.share_false, summary.share_healthy) == (2, 0.5, 0.5)
    assert summary.wrong_where_unseen == 1


def test_a_fault_that_is_never_named_is_never_detected() -> None:
    never = [_outcome("x", Mechanism.QUEUE_BLOCKED, Mechanism.HEALTHY)] * 2
    assert summarize(never).median_detection_seconds is None


def test_the_matrix_is_drawn_with_a_share_in_each_cell(tmp_path: Path) -> None:
    rows = matrix(OUTCOMES)
    assert rows["overload"] == {Mechanism.QUEUE_OVERLOAD: 1, Mechanism.HEALTHY: 1}
    path = tmp_path / "matrix.svg"
    draw(rows, (*FAULTS, *CONTROLS), path, "a <caption>")
    texts = [node.text for node in ElementTree.parse(path).iter() if node.tag.endswith("text")]
    assert texts.count("50") == 2
    assert "a <caption>" in texts
