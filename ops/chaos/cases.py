"""What is tried: a change that is rolled out, what its candidate is like, and one fault at one
moment of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Changed(StrEnum):
    """What a rollout moves."""

    POLICY = "policy"
    ENGINE = "engine"
    MODEL = "model"


class Candidate(StrEnum):
    """What it moves to."""

    GOOD = "good"
    """As good as what runs."""
    SLOW = "slow"
    SHORT = "short answers"
    EMPTY = "empty answers"
    CUT = "cut answers"
    REFUSING = "refuses everybody"
    UNLOADABLE = "cannot load"
    CRASHING = "crashes again and again"


class Moment(StrEnum):
    """When the fault falls."""

    WAITING = "waiting"
    STEP_BEGINS = "step 1 begins"
    STEP_ANALYSED = "step 1 is analysed"
    LAST_STEP = "within step 2"
    PROMOTING = "promoting"
    ABORTING = "aborting"
    """Somebody has just aborted it within step 1."""


class Fault(StrEnum):
    """What is done to the installation, once."""

    NONE = "nothing"
    CONTROL_PLANE = "kill control plane"
    SUPERVISOR = "kill supervisor and control plane"
    CANDIDATE_REPLICA = "kill a candidate's replica"
    STABLE_REPLICA = "kill a stable replica"
    BOTH_ARMS = "kill one replica of each arm"
    """A candidate that is fine, but unlucky: the machine fails both alike."""
    DATABASE = "database away"
    """PostgreSQL killed and started again after two seconds; SQLite locked so long."""
    OTHER_REVISION = "a stable replica answers at the port of a killed candidate"
    """The wrong revision in the place of the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cell of the matrix."""

    changed: Changed
    moment: Moment = Moment.STEP_BEGINS
    fault: Fault = Fault.NONE
    candidate: Candidate = Candidate.GOOD

    @property
    def is_good(self) -> bool:
        """The candidate deserves to be promoted, and nobody aborts it."""
        return self.candidate is Candidate.GOOD and self.moment is not Moment.ABORTING

    @property
    def told(self) -> str:
        """In a line."""
        return f"{self.changed}: {self.candidate}; {self.fault} at {self.moment}"


BAD_CANDIDATES = tuple(each for each in Candidate if each is not Candidate.GOOD)
_OF_REPLICAS = (Fault.CANDIDATE_REPLICA, Fault.STABLE_REPLICA, Fault.BOTH_ARMS)
_AFTER = (Moment.PROMOTING, Moment.ABORTING)


def is_possible(case: Case) -> bool:
    """Whether there is such a case: a policy has no replicas of its own, a model without weights
    cannot be slow, and a moment that a bad candidate never comes to cannot be waited for."""
    if case.changed is Changed.POLICY and (
        case.candidate not in (Candidate.GOOD, Candidate.REFUSING)
        or case.fault in (Fault.CANDIDATE_REPLICA, Fault.BOTH_ARMS, Fault.OTHER_REVISION)
        or case.moment is Moment.WAITING
    ):
        return False
    if case.changed is not Changed.ENGINE and case.candidate not in (
        Candidate.GOOD,
        Candidate.REFUSING if case.changed is Changed.POLICY else Candidate.CRASHING,
    ):
        return False
    if case.fault is Fault.OTHER_REVISION:
        return case.moment is Moment.STEP_BEGINS and case.candidate is Candidate.GOOD
    if case.moment is Moment.WAITING and case.fault in (*_OF_REPLICAS[:1], Fault.BOTH_ARMS):
        return False
    if case.moment in _AFTER and case.fault in (Fault.CANDIDATE_REPLICA, Fault.BOTH_ARMS):
        return case.moment is Moment.PROMOTING and case.fault is Fault.CANDIDATE_REPLICA
    never_runs = case.candidate in (Candidate.UNLOADABLE, Candidate.CRASHING)
    if case.candidate is not Candidate.GOOD:
        return case.moment is (Moment.WAITING if never_runs else Moment.STEP_BEGINS)
    return True


def matrix() -> list[Case]:
    """The fixed one: every infrastructure fault at every moment of a good candidate, and every bad
    candidate alone and with its control plane killed."""
    good = (
        Case(changed=changed, moment=moment, fault=fault)
        for changed in Changed
        for moment in Moment
        for fault in Fault
        if fault is not Fault.NONE
    )
    bad = (
        Case(changed=changed, moment=moment, fault=fault, candidate=candidate)
        for changed in Changed
        for candidate in BAD_CANDIDATES
        for moment in (Moment.WAITING, Moment.STEP_BEGINS)
        for fault in (Fault.NONE, Fault.CONTROL_PLANE)
    )
    return [case for case in (*good, *bad) if is_possible(case)]


SHORT = (
    Case(changed=Changed.POLICY, candidate=Candidate.REFUSING),
    Case(changed=Changed.POLICY, moment=Moment.STEP_ANALYSED, fault=Fault.SUPERVISOR),
    Case(changed=Changed.ENGINE, moment=Moment.STEP_BEGINS, fault=Fault.BOTH_ARMS),
    Case(changed=Changed.ENGINE, moment=Moment.PROMOTING, fault=Fault.CONTROL_PLANE),
    Case(changed=Changed.ENGINE, moment=Moment.ABORTING, fault=Fault.STABLE_REPLICA),
)
"""A handful that the tests try."""


def draw(seed: int) -> Iterator[Case]:
    """Cases without end; the same for the same seed."""
    random = Random(seed)
    while True:
        case = Case(
            changed=random.choice(tuple(Changed)),
            moment=random.choice(tuple(Moment)),
            fault=random.choice(tuple(Fault)),
            candidate=random.choice((Candidate.GOOD, random.choice(tuple(Candidate)))),
        )
        if is_possible(case):
            yield case
