"""An open incident wakes somebody only where callers get less than was promised to them."""

import pytest

from controlplane.api.incident_trouble import LateContract, trouble_of
from controlplane.api.incident_views import IncidentLine
from controlplane.store.incident_spell import IncidentSpell

_S = 10**9


def _incident() -> IncidentLine:
    return IncidentLine(
        incident_id="9f3a61c2",
        deployment="chat",
        state="open",
        title="cache.thrash",
        mechanism="cache.thrash",
        meaning="Running requests are preempted.",
        confidence="certain",
        severity=None,
        num_firing=0,
        opened_at_unix_ns=1_790_000_060 * _S,
        since_unix_ns=1_790_000_000 * _S,
        last_seen_at_unix_ns=1_790_000_090 * _S,
        resolved_at_unix_ns=None,
        num_reopened=0,
        spells=[
            IncidentSpell(
                opened_at_unix_ns=1_790_000_060 * _S,
                since_unix_ns=1_790_000_000 * _S,
                resolved_at_unix_ns=None,
            )
        ],
        acknowledged_at_unix_ns=None,
        acknowledged_by=None,
        runbook="ops/runbooks/cache-thrash.md",
    )


@pytest.mark.parametrize(
    ("num_good", "num_judged", "promised", "severity"),
    [
        (40, 60, 0.95, "page"),
        (59, 60, 0.95, "ticket"),
        (0, 19, 0.95, "ticket"),
        (0, 60, None, "ticket"),
    ],
)
def test_severity(num_good: int, num_judged: int, promised: float | None, severity: str) -> None:
    late = LateContract(num_good=num_good, num_judged=num_judged, promised_share=promised)
    assert trouble_of(_incident(), late).severity == severity


def test_it_says_what_since_when_and_what_to_do() -> None:
    late = LateContract(num_good=40, num_judged=60, promised_share=0.95)
    trouble = trouble_of(_incident(), late)
    assert trouble.what == (
        "chat: cache.thrash (certain) since 2026-09-21 14:13:20 UTC. Running requests are "
        "preempted; 20 of 60 requests missed the contract lately"
    )
    assert trouble.remedy == (
        "Run `pilothouse incidents 9f3a61c2` and follow the runbook cache-thrash."
    )
