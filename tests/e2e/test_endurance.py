"""Two thousand requests while processes are killed: each has its one end on record, and nothing
is left behind. The hundred thousand are `ops/bench/bench_endurance.py`."""

from pathlib import Path

import pytest

from ops.endurance.blows import KILLS
from ops.endurance.run import Plan, run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_every_request_is_accounted_for_while_processes_are_killed(tmp_path: Path) -> None:
    plan = Plan(num_requests=2000, blows=KILLS, gap_seconds=2.0, seed=20)
    verdict = run(plan, tmp_path)
    assert verdict.wrong == []
    assert verdict.num_blows == len(KILLS)
    assert verdict.accounts.num_attempts == plan.num_requests
    # What it is about did happen.
    ends = verdict.accounts.by_disposition
    assert {"length", "cancelled", "invalid", "lost"} <= set(ends)
