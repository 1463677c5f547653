"""A handful of faults at steps of rollouts of a whole installation under load. All of them are
`make chaos-rollouts`."""

from pathlib import Path

import pytest

from ops.chaos.cases import SHORT
from ops.chaos.run import run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_rollout_ends_with_one_whole_revision_whatever_is_killed(tmp_path: Path) -> None:
    verdict = run(SHORT, tmp_path, "sqlite")
    assert verdict.all_wrong == []
    assert len(verdict.outcomes) == len(SHORT)
    # What it is about did happen.
    assert {outcome.state for outcome, _ in verdict.outcomes} == {"promoted", "aborted"}
    assert all(outcome.struck for outcome, _ in verdict.outcomes)
    # One that is aborted at once may have been given none, on a machine that is busy.
    promoted = [accounts for outcome, accounts in verdict.outcomes if outcome.state == "promoted"]
    assert all(accounts.num_of_candidate for accounts in promoted)
