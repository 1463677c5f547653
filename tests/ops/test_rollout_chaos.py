"""What the chaos of rollouts would find: else its silence would mean nothing."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.store.request_tables import RequestRow
from ops.chaos.accounts import BY_CANDIDATE, ON_KILLED, find_mixed_revisions, settle
from ops.chaos.capacity import least_unexcused
from ops.chaos.cases import SHORT, Candidate, Case, Changed, Fault, Moment, draw, matrix
from ops.chaos.trial import Outcome
from ops.endurance.attempt import Attempt, End, Kind

SECOND = 10**9
KILLED_AT = 100 * SECOND
RUNS = {"model": "m@1", "engine config": "e@1", "policy": "p@1"}


def call(trace_id: str, end: End = End.WHOLE, status: int = 200) -> Attempt:
    return Attempt(
        number=0, kind=Kind.STREAM, trace_id=trace_id, tenant="default", body=b"", is_stream=True,
        leaves_after_seconds=0, leaves_by_reset=False, end=end, status=status,
        ended_at_unix_ns=KILLED_AT + SECOND,
    )  # fmt: skip


def row(trace_id: str, **fields: Any) -> RequestRow:
    told = {
        "disposition": "stop", "arrived_at_unix_ns": KILLED_AT, "counted_output_tokens": 16,
        "tenant": "default", "model_revision": "m@1", "engine_config_revision": "e@1",
        "policy_revision": "p@1",
    }  # fmt: skip
    return RequestRow(trace_id=trace_id, **(told | fields))


def outcome(attempts: Sequence[Attempt], num_after: int = 0, **fields: Any) -> Outcome:
    """Of a good candidate, with `num_after` calls once all was whole."""
    case = fields.pop("case", Case(changed=Changed.ENGINE))
    num = len(attempts)
    calls = (0, num - num_after, num)
    return Outcome(case=case, num_calls=calls, revisions=dict(RUNS), **fields)


@pytest.mark.parametrize(
    ("replica", "arrived_at", "is_excused"),
    [("r1", KILLED_AT, True), ("r2", KILLED_AT, False), ("r1", KILLED_AT + 9 * SECOND, False)],
)
def test_only_calls_in_flight_on_a_killed_replica_may_be_cut(
    replica: str, arrived_at: int, is_excused: bool
) -> None:
    calls = [call("cut", End.ERROR_EVENT), call("after")]
    rows = {
        "cut": row("cut", replica_id=replica, arrived_at_unix_ns=arrived_at, disposition="error"),
        "after": row("after"),
    }
    accounts = settle(outcome(calls, 1, killed={"r1": KILLED_AT}), calls, rows)
    assert dict(accounts.excused) == ({ON_KILLED: 1} if is_excused else {})
    assert bool(accounts.wrong) is not is_excused


@pytest.mark.parametrize(("arm", "is_excused"), [("candidate", True), ("stable", False)])
def test_a_candidate_that_refuses_excuses_its_own_refusals_alone(
    arm: str, is_excused: bool
) -> None:
    calls = [call("no", status=403), call("after")]
    rows = {"no": row("no", arm=arm, disposition="rejected"), "after": row("after")}
    case = Case(changed=Changed.POLICY, candidate=Candidate.REFUSING)
    accounts = settle(outcome(calls, 1, case=case), calls, rows)
    assert dict(accounts.excused) == ({BY_CANDIDATE: 1} if is_excused else {})
    assert bool(accounts.wrong) is not is_excused


@pytest.mark.parametrize("other", [{"policy_revision": "p@2"}, {"arm": "candidate"}])
def test_what_gateways_enforce_at_the_end_is_what_the_deployment_is(other: dict[str, str]) -> None:
    calls = [call("during"), call("after")]
    rows = {"during": row("during", arm="candidate"), "after": row("after")}
    assert settle(outcome(calls, 1), calls, rows).wrong == []
    rows["after"] = row("after", **other)
    assert len(settle(outcome(calls, 1), calls, rows).wrong) == 1


def test_how_long_the_candidate_was_sent_calls_after_its_abort_is_told() -> None:
    calls = [call("late"), call("after")]
    rows = {
        "late": row("late", arm="candidate", arrived_at_unix_ns=KILLED_AT + 2 * SECOND),
        "after": row("after"),
    }
    aborted = outcome(calls, 1, aborted_at_unix_ns=KILLED_AT)
    settle(aborted, calls, rows)
    assert aborted.back_seconds == 2.0


def test_an_answer_under_another_revisions_name_is_found() -> None:
    rows = [row("a"), row("b"), row("c", engine_config_revision="e@2", counted_output_tokens=17)]
    assert find_mixed_revisions(rows) == []
    (found,) = find_mixed_revisions([*rows, row("d", counted_output_tokens=17)])
    assert "e@1" in found


@pytest.mark.parametrize(
    ("seen", "killed_at", "least"),
    [
        ([(1, 2), (2, 3), (3, 2)], [], 2),
        ([(1, 2), (2, 1), (3, 2)], [], 1),
        ([(1, 2), (2, 2), (3, 1), (4, 2)], [2], 2),
        ([(1, 2), (3, 0), (4, 2)], [2], 1),
        ([(1, 2), (3, 1), (4, 2), (5, 1)], [2], 1),
        ([], [], None),
    ],
)
def test_a_killed_replica_excuses_one_less_until_all_are_there_again(
    seen: list[tuple[int, int]], killed_at: list[int], least: int | None
) -> None:
    looks = [(at * SECOND, num) for at, num in seen]
    assert least_unexcused(looks, [at * SECOND for at in killed_at], 2) == least


def test_the_matrix_has_each_fault_moment_and_candidate_and_chance_draws_the_same_again() -> None:
    cases = matrix()
    assert len(set(cases)) == len(cases)
    assert {case.fault for case in cases} == set(Fault)
    assert {case.moment for case in cases} == set(Moment)
    assert {case.candidate for case in cases} == set(Candidate)
    assert set(SHORT) - set(cases) == set()
    first, again = (list(itertools.islice(draw(5), 9)) for _ in range(2))
    assert first == again
