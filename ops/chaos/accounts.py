"""What callers of one case were answered, against what is on record of them. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.store.request_tables import RequestRow
from ops.chaos.cases import Candidate
from ops.chaos.traffic import TENANT
from ops.chaos.trial import Outcome
from ops.endurance.attempt import Attempt, End

_SECOND_NS = 10**9
_FELT_SECONDS = 2
"""For how long after a kill a caller may hear of it."""
ON_KILLED = "in flight on a replica that was killed"
BY_CANDIDATE = "refused by what the candidate says"
_MAX_EXAMPLES = 3


@dataclass(slots=True)
class CaseAccounts:
    """Of the calls of one case."""

    num_calls: int = 0
    num_of_candidate: int = 0
    excused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wrong: list[str] = field(default_factory=list)


def settle(
    outcome: Outcome, attempts: Sequence[Attempt], rows: Mapping[str, RequestRow]
) -> CaseAccounts:
    """`attempts` are all of the installation, `rows` by trace id. Says in `outcome` too how long
    the candidate was sent requests after it was aborted."""
    begin, whole, end = outcome.num_calls
    accounts, bad = CaseAccounts(num_calls=end - begin), []
    for attempt in attempts[begin:end]:
        row = rows.get(attempt.trace_id)
        if row is None:
            continue  # the audit of all tells of it
        accounts.num_of_candidate += row.arm == "candidate"
        if attempt.status == 200 and attempt.end is End.WHOLE:
            continue
        excuse = _excuse(outcome, attempt, row)
        if excuse is None:
            bad.append(f"{attempt.status} {attempt.end} {row.disposition} {row.arm} {row.reason}")
        else:
            accounts.excused[excuse] += 1
    if bad:
        accounts.wrong.append(f"{len(bad)} calls failed: {'; '.join(bad[:_MAX_EXAMPLES])}")
    served = [rows[each.trace_id] for each in attempts[begin:end] if each.trace_id in rows]
    outcome.back_seconds = _back_seconds(outcome, served)
    accounts.wrong += _judge_enforced(outcome, attempts[whole:end], rows)
    return accounts


def find_mixed_revisions(rows: Sequence[RequestRow]) -> list[str]:
    """Each revision of the engine config here answers with as many tokens as no other around it:
    whole answers of one revision on record must all be alike."""
    lengths: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        is_callers = row.tenant == TENANT  # and none of the supervisor's
        is_whole = row.disposition in ("stop", "length")
        if is_callers and is_whole and row.engine_config_revision is not None:
            lengths[row.engine_config_revision].add(row.counted_output_tokens)
    return [
        f"answers of {revision} on record have {sorted(found)} tokens"
        for revision, found in lengths.items()
        if len(found) > 1
    ]


def _excuse(outcome: Outcome, attempt: Attempt, row: RequestRow) -> str | None:
    killed_at = outcome.killed.get(row.replica_id or "")
    until = attempt.ended_at_unix_ns
    if killed_at is not None and row.arrived_at_unix_ns <= killed_at + _FELT_SECONDS * _SECOND_NS:
        return ON_KILLED if until >= killed_at - _SECOND_NS else None
    is_refusing = outcome.case.candidate is Candidate.REFUSING
    if is_refusing and row.arm == "candidate" and attempt.status in (400, 403, 429):
        return BY_CANDIDATE
    return None


def _back_seconds(outcome: Outcome, rows: Sequence[RequestRow]) -> float | None:
    aborted_at = outcome.aborted_at_unix_ns
    if aborted_at is None:
        return None
    last = max((row.arrived_at_unix_ns for row in rows if row.arm == "candidate"), default=0)
    return max(0.0, (last - aborted_at) / _SECOND_NS)


def _judge_enforced(
    outcome: Outcome, attempts: Sequence[Attempt], rows: Mapping[str, RequestRow]
) -> list[str]:
    """Once all is whole, every call is answered by what the deployment is, and no rollout."""
    wanted = {outcome.revisions.get(role) for role in ("model", "engine config", "policy")}
    found = {
        frozenset((row.model_revision, row.engine_config_revision, row.policy_revision))
        for each in attempts
        if (row := rows.get(each.trace_id)) is not None
    }
    arms = {row.arm for each in attempts if (row := rows.get(each.trace_id)) is not None}
    wrong = []
    if found != {frozenset(wanted)}:
        wrong.append(f"gateways enforced {[sorted(map(str, each)) for each in found]} at the end")
    if arms != {None}:
        wrong.append(f"requests were of {sorted(map(str, arms))} at the end")
    return wrong
