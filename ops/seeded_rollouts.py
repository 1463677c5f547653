"""Made-up rollouts for the seeded console: one that was aborted, one that was promoted, and one
under way; the real analysis compares made-up requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from controlplane.rollouts.analysis.arm_request import ArmRequest
from controlplane.rollouts.analysis.step import StepAnalysis, analyse_step
from controlplane.rollouts.analysis.tally import tally_of
from controlplane.rollouts.machine import Progress, RolloutState
from controlplane.rollouts.worker import Look, measured_by
from controlplane.slo.promised import Promise
from controlplane.slo.promised_now import promises_now
from controlplane.specs.documents import load_documents
from controlplane.specs.kind import Kind
from controlplane.specs.rollout import RolloutSpec
from controlplane.store.catalog import StoreCatalog
from controlplane.store.database import Database
from controlplane.store.deployments import find_deployment
from controlplane.store.revision import Revision
from controlplane.store.revisions import apply_documents, find_revision
from controlplane.store.rollouts import (
    BY_ITSELF,
    ArmRevisions,
    NewRollout,
    StoredRollout,
    begin_rollout,
    move_rollout,
)
from dataplane.arm import Arm
from dataplane.lifecycle import Disposition

_NS = 10**9
_AGO: dict[str, int] = {"first": 90_000, "second": 3_600, "third": 1_140}
"""Seconds before now at which each began."""
_READY = "the candidate is ready"
_BEN = "a person promoted it: a quiet afternoon"
_FAIRER = """\
apiVersion: pilothouse/v1
kind: AdmissionPolicy
metadata: {name: chat-fair}
spec:
  classes:
    - {name: interactive, priority: 100, max_queue: 64, deadline: 10s}
    - {name: batch, priority: 10, aging: 1/s, max_queue: 512}
  tenants: {default: {weight: 1, tokens_per_minute: 400000}}
"""
_SPEC: dict[str, Any] = {
    "steps": [
        {"share": "5%", "for": "5m"},
        {"share": "25%", "for": "5m", "pause": True},
        {"share": "100%", "for": "5m"},
    ],
    "timeout": "2h",
    "analysis": {"min_requests": 200, "margins": {"ttft": "20%"}},
}


@dataclass(frozen=True, slots=True)
class SeededRollouts:
    """What pages read of the worker; here only people move a rollout."""

    looks: Mapping[int, Look] = field(default_factory=dict)

    def wake(self) -> None:
        """Nobody sleeps."""


def store_rollouts(database: Database, now_unix_ns: int) -> SeededRollouts:
    """All of deployment chat."""
    first, second = _policy(database, "chat", 1), _policy(database, "chat", 2)
    fairer = _add_policy(database, now_unix_ns - (_AGO["first"] + 60) * _NS)
    promises = _promises(database)
    worse, alike = _analysed(promises, is_worse=True), _analysed(promises, is_worse=False)

    at = _since(now_unix_ns, _AGO["first"])
    aborted = _begin(database, first, fairer, at(0), "gold tenants shall wait less")
    aborted = _move(database, aborted, RolloutState.RUNNING, 0, at(1), _READY)
    why = worse.decision.reason
    _move(database, aborted, RolloutState.ABORTED, 0, at(430), why, worse)

    at = _since(now_unix_ns, _AGO["second"])
    promoted = _begin(database, first, second, at(0), "nobody waits five minutes for an answer")
    promoted = _move(database, promoted, RolloutState.RUNNING, 0, at(1), _READY)
    promoted = _move(
        database, promoted, RolloutState.RUNNING, 1, at(700), alike.decision.reason, alike
    )
    promoted = _move(database, promoted, RolloutState.RUNNING, 2, at(1500), _BEN, actor="ben")
    _move(database, promoted, RolloutState.PROMOTED, 2, at(2340), alike.decision.reason, alike)

    at = _since(now_unix_ns, _AGO["third"])
    living = _begin(database, second, fairer, at(0), "the limits of tenants are twice as high now")
    living = _move(database, living, RolloutState.RUNNING, 0, at(1), _READY)
    living = _move(database, living, RolloutState.RUNNING, 1, at(620), alike.decision.reason, alike)
    look = Look(
        at_unix_ns=now_unix_ns - 2 * _NS,
        step_since_unix_ns=living.progress.step_since_unix_ns,
        seconds=0.02,
        analysis=_analysed(promises, is_worse=False, num_candidate=260),
    )
    return SeededRollouts({living.number: look})


def _since(now_unix_ns: int, ago: int) -> Callable[[int], int]:
    """The instant so many seconds after it."""
    return lambda seconds: now_unix_ns - (ago - seconds) * _NS


def _policy(database: Database, name: str, number: int) -> Revision:
    with database.reading() as session:
        found = find_revision(session, Kind.ADMISSION_POLICY, name, number)
    if found is None:
        raise ValueError(f"the seeded config has no policy {name}@{number} any more")
    return found


def _add_policy(database: Database, at_unix_ns: int) -> Revision:
    """One that no deployment names: trying it is all that is made up."""
    with database.session() as session:
        loaded = load_documents([("seed-fair.yaml", _FAIRER)], StoreCatalog(session))
        if loaded.problems:
            raise ValueError("; ".join(str(problem) for problem in loaded.problems))
        apply_documents(
            session, loaded.documents, author="ann", reason="to try", clock=lambda: at_unix_ns
        )
    return _policy(database, "chat-fair", 1)


def _begin(
    database: Database, stable: Revision, candidate: Revision, at_unix_ns: int, reason: str
) -> StoredRollout:
    with database.session() as session:
        desired = find_deployment(session, "chat")
        if desired is None:
            raise ValueError("the seeded config has no deployment chat any more")
        model, engine_config = desired.revisions.model, desired.revisions.engine_config
        arms = [
            ArmRevisions(model=model, engine_config=engine_config, policy=policy)
            for policy in (stable, candidate)
        ]
        new = NewRollout(
            deployment="chat",
            stable=arms[0],
            candidate=arms[1],
            spec=RolloutSpec.model_validate(_SPEC),
        )
        return begin_rollout(session, new, actor="ben", reason=reason, now_unix_ns=at_unix_ns)


def _move(
    database: Database,
    rollout: StoredRollout,
    state: RolloutState,
    step: int,
    at_unix_ns: int,
    reason: str,
    analysis: StepAnalysis | None = None,
    actor: str = BY_ITSELF,
) -> StoredRollout:
    progress = Progress(state=state, step=step, step_since_unix_ns=at_unix_ns, reason=reason)
    measured = None if analysis is None else measured_by(analysis)
    with database.session() as session:
        return move_rollout(
            session, rollout, progress, actor=actor, measured=measured, now_unix_ns=at_unix_ns
        )


def _promises(database: Database) -> tuple[Promise, ...]:
    with database.reading() as session:
        desired = find_deployment(session, "chat")
    return () if desired is None else tuple(promises_now([desired]))


@lru_cache
def _analysed(
    promises: tuple[Promise, ...], *, is_worse: bool, num_candidate: int = 900
) -> StepAnalysis:
    chance = Random(7)
    requests = [
        (arm, _request(chance, promises, is_worse=is_worse and arm is Arm.CANDIDATE))
        for arm, num in ((Arm.STABLE, num_candidate * 3), (Arm.CANDIDATE, num_candidate))
        for _ in range(num)
    ]
    terms = RolloutSpec.model_validate(_SPEC).terms
    return analyse_step(tally_of(requests, terms.measures), promises, terms, share=0.25)


def _request(chance: Random, promises: Sequence[Promise], *, is_worse: bool) -> ArmRequest:
    failed = chance.random() < (0.06 if is_worse else 0.002)
    ttft = chance.lognormvariate(-2.3, 0.4) * (1.4 if is_worse else 1.0)
    kept = {"ttft": not failed and ttft < 0.3, "availability": not failed}
    return ArmRequest(
        request_class="interactive",
        disposition=Disposition.ERROR if failed else Disposition.STOP,
        num_prompt_tokens=chance.choice((40, 90, 300)),
        num_output_tokens=None if failed else chance.choice((60, 110, 200)),
        in_contract=not failed and ttft < 0.3,
        ttft=None if failed else ttft,
        tpot=None if failed else chance.lognormvariate(-3.6, 0.15),
        contract_revision=promises[0].contract_revision if promises else None,
        objectives={
            each.objective: kept.get(each.objective, not failed)
            for each in promises
            if each.request_class == "interactive"
        },
    )
