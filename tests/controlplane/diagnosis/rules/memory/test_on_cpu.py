"""An engine on the CPU that gets no more memory: the stage decides, and not whose memory it is."""

import json

import pytest

from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.log import LogReader
from tests.controlplane.diagnosis.rules.evidence import reckoned

_REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
    "allocate memory: you tried to allocate 3538944 bytes. Error code 12 (Cannot allocate memory)"
)


def judged(*frames: str, is_json: bool) -> Diagnosis:
    traceback = "\n".join(
        [
            "Traceback (most recent call last):",
            *(f'  File "/opt/engine.py", line 9, in {frame}' for frame in frames),
            _REFUSED,
        ]
    )
    text = traceback
    if is_json:
        text = json.dumps(
            {
                "event": "the replica failed",
                "level": "error",
                "at": "2026-11-30T09:52:54.242340Z",
                "exception": traceback,
            }
        )
    reader = LogReader("engine.log")
    reader.read(text.split("\n"))
    return diagnose(join([reader.finish()]), BUILT_IN_RULES)


@pytest.mark.parametrize("is_json", [True, False], ids=["json", "plain"])
def test_while_it_loads_weights_they_do_not_fit(is_json: bool) -> None:
    diagnosis = judged("load_runner", "load_weights", "_empty", is_json=is_json)
    assert diagnosis.mechanism is Mechanism.OOM_LOAD
    assert diagnosis.findings[0].verdict.detail == "weights"
    assert 3_538_944 in reckoned(diagnosis.findings[0].verdict)


@pytest.mark.parametrize("is_json", [True, False], ids=["json", "plain"])
def test_while_it_measures_a_step_the_workspace_does_not_fit(is_json: bool) -> None:
    diagnosis = judged("start", "measure_workspace", "step", "_empty", is_json=is_json)
    assert diagnosis.mechanism is Mechanism.OOM_PROFILE


def test_elsewhere_it_stays_the_hosts_memory() -> None:
    diagnosis = judged("save_prompt_cache", "pin_memory", is_json=False)
    assert diagnosis.mechanism is Mechanism.OOM_HOST_MEMORY
