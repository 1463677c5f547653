"""Of a long log only the beginning, the end and the events are kept."""

from dataclasses import replace

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.memory.prefill import PREFILL_TRANSIENT
from tests.controlplane.diagnosis.rules.build_window import said, window
from tests.controlplane.diagnosis.rules.evidence import repeated


def test_the_lines_around_a_failure_are_found_where_the_middle_is_gone() -> None:
    frame = 'File "/opt/vllm/runner.py", line 5, in _get_prompt_logprobs_dict'
    found = window(
        said(LogKind.READY, "INFO:     Application startup complete."),
        f"  {frame}",
        said(LogKind.OUT_OF_MEMORY, "torch.OutOfMemoryError: CUDA out of memory."),
    )
    far = replace(
        found, events=tuple(replace(event, index=event.index + 90000) for event in found.events)
    )
    verdict = PREFILL_TRANSIENT.judge(far)
    assert verdict is not None
    assert frame in repeated(far, verdict)
