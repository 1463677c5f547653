"""Ends of rollouts are counted by what it was that ended them, as the machine words it."""

from collections.abc import Callable

import pytest

from controlplane.rollouts.machine import Demand, Facts, Progress, RolloutState, advance
from controlplane.rollouts.verdict import Decision, Verdict
from controlplane.store.database import Database
from controlplane.store.revisions import apply_documents
from controlplane.store.rollout_counts import ENDED_BY, count_ended, count_living
from controlplane.store.rollout_demands import advance_rollout, demand_rollout
from controlplane.store.rollouts import StoredRollout, find_last
from tests.controlplane.config_documents import documents
from tests.controlplane.rolling_documents import OTHER_POLICY, ROLLING_SERVICE

_LATER = 10**18
"""Nanoseconds: longer than any step may take."""
_ABORTING = [text.replace("steps:", "on_timeout: abort, steps:") for text in ROLLING_SERVICE]


@pytest.fixture
def rolling(database: Database) -> Database:
    """Rollout 1 of chat waits; a step of it that nothing decides aborts it."""
    apply(database, *_ABORTING)
    apply(database, OTHER_POLICY)
    return database


def apply(database: Database, *texts: str) -> None:
    with database.session() as session:
        apply_documents(session, documents(*texts), author="ann", reason="x", clock=lambda: 1)


def last(database: Database) -> StoredRollout:
    with database.reading() as session:
        found = find_last(session, "chat")
    assert found is not None
    return found


def go(database: Database, facts: Facts) -> None:
    """One move of the machine's own."""
    rollout = last(database)
    progress = advance(rollout.progress, rollout.strategy, facts)
    assert progress is not None
    store(database, rollout, progress, facts.now_unix_ns)


def store(database: Database, rollout: StoredRollout, progress: Progress, at: int) -> None:
    with database.session() as session:
        advance_rollout(session, rollout, progress, now_unix_ns=at)


def run(database: Database) -> None:
    go(database, Facts(now_unix_ns=2, is_candidate_ready=True))


def reject(database: Database) -> None:
    run(database)
    bad = Decision(verdict=Verdict.REJECT, reason="ttft was bad")
    go(database, Facts(now_unix_ns=3, is_candidate_ready=True, decision=bad))


def let_it_take_too_long(database: Database) -> None:
    run(database)
    go(database, Facts(now_unix_ns=_LATER, is_candidate_ready=True))


def never_be_ready(database: Database) -> None:
    go(database, Facts(now_unix_ns=_LATER, is_candidate_ready=False))


def crash(database: Database) -> None:
    why = "replicas of the candidate failed 2 times in a row"
    go(database, Facts(now_unix_ns=3, is_candidate_ready=False, hard_stop=why))


def ask(database: Database) -> None:
    with database.session() as session:
        demand_rollout(session, 1, Demand.ABORT, actor="eve", reason="odd", now_unix_ns=4)


def pin_what_was(database: Database) -> None:
    apply(database, _ABORTING[-1].replace("policy: chat,", "policy: chat@1,"))


@pytest.mark.parametrize(
    ("end", "ended_by"),
    [
        (reject, "analysis"),
        (let_it_take_too_long, "timeout"),
        (never_be_ready, "replicas"),
        (crash, "replicas"),
        (ask, "person"),
        (pin_what_was, "config"),
    ],
)
def test_an_aborted_one_is_counted_by_what_aborted_it(
    rolling: Database, end: Callable[[Database], None], ended_by: str
) -> None:
    end(rolling)
    assert last(rolling).progress.state is RolloutState.ABORTED
    with rolling.reading() as session:
        assert count_ended(session) == {("aborted", ended_by): 1}
        assert count_living(session) == {}
    assert ended_by in ENDED_BY


def test_what_is_under_way_is_counted_by_its_state(rolling: Database) -> None:
    with rolling.reading() as session:
        assert count_living(session) == {("chat", "waiting"): 1}
        assert count_ended(session) == {}
    run(rolling)
    with rolling.reading() as session:
        assert count_living(session) == {("chat", "running"): 1}
