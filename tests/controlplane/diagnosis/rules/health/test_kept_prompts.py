"""llama.cpp's cache of prompts in the host's memory, on its way to its limit."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.case import read_case

_CASE = """
engine: {{name: llama.cpp, version: b9120}}
input:
- kind: log
  text: |
    srv    load_model: prompt cache is enabled, size limit: 8192 MiB
    srv    update:  - cache state: 6 prompts, 840.220 MiB (limits: 8192.000 MiB, 65536 tokens, 1 est)
    slot print_timing: id  1 | task 801 |
    prompt eval time =    6021.20 ms /  7610 tokens (    0.79 ms per token,  1263.87 tokens per second)
           eval time =    8120.12 ms /   310 tokens (   26.19 ms per token,    38.18 tokens per second)
    srv    update:  - cache state: 22 prompts, 3141.220 MiB (limits: 8192.000 MiB, 65536 tokens, 1 est)
    {line}
    slot print_timing: id  0 | task 1210 |
    prompt eval time =    5990.80 ms /  7588 tokens (    0.79 ms per token,  1266.61 tokens per second)
           eval time =    8301.77 ms /   317 tokens (   26.19 ms per token,    38.18 tokens per second)
- kind: gateway
  at_s: 0
  values: {{{memory}: 5.0, host_memory_total_gib: {total}, in_flight: 1}}
- kind: gateway
  at_s: 5400
  values: {{{memory}: {middle}, host_memory_total_gib: {total}, in_flight: 2}}
- kind: gateway
  at_s: 9000
  values: {{{memory}: {last}, host_memory_total_gib: {total}, in_flight: 1, errors: 0}}
"""  # noqa: E501 (lines as the server writes them)


def _answer(
    *, last: float = 7.3, total: int = 64, line: str = "", memory: str = "host_rss_gib"
) -> Diagnosis:
    middle = 5.0 + (last - 5.0) * 0.8
    text = _CASE.format(last=last, middle=middle, total=total, line=line, memory=memory)
    return diagnose(read_case(text, "case.yaml").window, BUILT_IN_RULES)


@pytest.mark.parametrize("memory", ["host_rss_gib", "rss_gb"])
def test_memory_that_grows_by_what_is_kept_is_well(memory: str) -> None:
    answer = _answer(memory=memory)
    assert answer.mechanism is Mechanism.HEALTHY
    assert answer.confidence is Confidence.LIKELY


def test_memory_that_grows_by_more_than_is_kept_is_not() -> None:
    assert _answer(last=9.8).mechanism is not Mechanism.HEALTHY


def test_a_limit_for_which_the_host_has_no_room_is_not() -> None:
    assert _answer(total=12).mechanism is not Mechanism.HEALTHY
    assert _answer(total=13).mechanism is Mechanism.HEALTHY


def test_one_that_dropped_prompts_and_is_not_full_is_not() -> None:
    dropped = "srv update:  - cache size limit reached, removing oldest entry (size = 71.402 MiB)"
    assert _answer(line=dropped).mechanism is not Mechanism.HEALTHY


def test_one_whose_prompts_are_read_anew_is_not() -> None:
    line = "slot update_slots: id 0 | task 1 | forcing full prompt re-processing due to lack of it"
    assert _answer(line=line).mechanism is not Mechanism.HEALTHY
