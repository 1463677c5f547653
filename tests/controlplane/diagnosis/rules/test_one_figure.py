"""One figure that was told, beside the page of a sound engine: what it claims, and no more."""

from dataclasses import replace

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.window import Window
from tests.controlplane.diagnosis.recorded import recorded_window
from tests.controlplane.diagnosis.rules.build_window import told

_BUSY, _IDLE, _WITH_QUEUE = "vllm-busy", "vllm-idle", "sglang-busy"


def _beside(page: str, **values: object) -> Window:
    seen = recorded_window(page)
    return replace(seen, facts=(*seen.facts, *told(seen.end, **values)))


INNOCENT: dict[str, Window] = {
    "what was sent and is done was not held back": _beside(_BUSY, sent_and_not_in_flight=19801),
    "a queue that is empty in between has no head that stands": _beside(
        _WITH_QUEUE, first_in_queue="wants adapter L5"
    ),
    "settings of a cache are no limits of a client": _beside(_BUSY, asked_concurrency=80),
    "a link that is bad is nobody who does not read": _beside(
        _BUSY, retransmits_per_s="31, 0, 0, 0"
    ),
    "the slowest moves say nothing of a mean first token": _beside(
        _WITH_QUEUE, kv_transfer_ms_p95=210
    ),
    "where one place serves, turns cannot be scattered": _beside(
        _BUSY, turns_on_same_replica_as_before=0.17
    ),
    "how late a first token is says nothing of what is shared": _beside(_BUSY, ttft_p50_s=0.2),
}


@pytest.mark.parametrize("why", INNOCENT)
def test_it_is_no_trouble(why: str) -> None:
    found = diagnose(INNOCENT[why], BUILT_IN_RULES)
    assert {each.mechanism for each in found.findings} <= {Mechanism.HEALTHY}


def test_what_is_old_is_the_sample_and_not_the_host() -> None:
    found = diagnose(_beside(_WITH_QUEUE, age_of_endpoint_sample_s=118), BUILT_IN_RULES)
    assert {each.mechanism for each in found.findings} == {Mechanism.TELEMETRY_STALE}


def test_a_share_of_a_step_may_be_of_another_run() -> None:
    found = diagnose(_beside(_BUSY, share_of_step_in_allreduce=0.87), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.COMMUNICATION_BOUND
    assert found.confidence is Confidence.LIKELY


def test_a_kill_beside_a_page_that_goes_on_may_be_of_another_process() -> None:
    found = diagnose(_beside(_IDLE, k8s_reason="OOMKilled"), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.OOM_HOST_MEMORY
    assert found.confidence is Confidence.LIKELY
