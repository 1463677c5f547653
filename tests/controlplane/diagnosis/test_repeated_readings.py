"""Two scrapes that read the same, or one that is a little back, change no diagnosis."""

from pathlib import Path

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.case import read_case

FIELD = Path(__file__).parents[2] / "incidents" / "field"


def diagnosed(name: str, was: str, becomes: str) -> Diagnosis:
    text = (FIELD / f"{name}.yaml").read_text()
    assert text.count(was) == 1
    return diagnose(read_case(text.replace(was, becomes), name).window, BUILT_IN_RULES)


@pytest.mark.parametrize(
    "becomes",
    ["Running: 16 reqs, Waiting: 84 reqs", "Running: 15 reqs, Waiting: 85 reqs"],
    ids=["as before", "one back"],
)
def test_a_burst_that_is_let_in_by_turns_is_no_head_of_line(becomes: str) -> None:
    name, was = "burst-hundred-long-prompts", "Running: 22 reqs, Waiting: 78 reqs"
    assert diagnosed(name, was, becomes).mechanism is Mechanism.QUEUE_BURST_DRAINING


@pytest.mark.parametrize("running", [41, 44], ids=["as before", "a few back"])
def test_what_is_held_more_and_more_is_a_leak(running: int) -> None:
    labels = '{engine_type="decode",model_name="m",tp_rank="0"}'
    queue, prefill = (f"sglang:num_{of}_prealloc_queue_reqs" for of in ("decode", "prefill"))
    later = "- kind: metrics\n  at_s: 1200\n"
    between = (
        "- kind: metrics\n  at_s: 900\n  text: |\n"
        f"    # TYPE sglang:num_running_reqs gauge\n    sglang:num_running_reqs{labels} {running}\n"
        f"    # TYPE sglang:token_usage gauge\n    sglang:token_usage{labels} 0.84\n"
        f"    # TYPE {queue} gauge\n    {queue}{labels} 97\n"
        f"    # TYPE {prefill} gauge\n    {prefill}{labels.replace('decode', 'prefill')} 204\n"
    )
    found = diagnosed("release-leak-decode-pool", later, between + later)
    assert found.mechanism is Mechanism.RELEASE_LEAK
    assert found.confidence is Confidence.CERTAIN
