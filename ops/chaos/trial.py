"""One case from its change to the whole revision that it ends with."""

import os
import time
from dataclasses import dataclass, field

from ops.chaos.capacity import CapacityWatch, least_unexcused
from ops.chaos.cases import Candidate, Case, Moment
from ops.chaos.documents import NUM_REPLICAS, Service
from ops.chaos.faults import Arms, Striker, keep_killing
from ops.chaos.place import OVER, Place, wait_until
from ops.chaos.traffic import Traffic
from ops.endurance.installation import NotInTimeError

_MOMENT_SECONDS = 90.0
_END_SECONDS = 120.0
_WHOLE_SECONDS = 60.0
_ANALYSED_AFTER_SECONDS = 1.5
_MIDDLE_SECONDS = 0.5
_CALLS_AFTER = 24
"""Answered once all is whole: they show what is enforced."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of one case."""

    case: Case
    state: str = ""
    """promoted or aborted."""
    reason: str = ""
    struck: bool = False
    killed: dict[str, int] = field(default_factory=dict)
    """Unix time in nanoseconds, by replica."""
    num_calls: tuple[int, int, int] = (0, 0, 0)
    """Of all callers: before the change, when all was whole again, and some time after."""
    seconds: float = 0.0
    """From the change to the whole revision."""
    back_seconds: float | None = None
    """Of one that was aborted: from then until no gateway sent the candidate anything."""
    load: float = 0.0
    """Processes that wanted to run, on average of the last minute."""
    least_capacity: int | None = None
    revisions: dict[str, str] = field(default_factory=dict)
    """At the end, by role."""
    rollout: int = 0
    aborted_at_unix_ns: int | None = None
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Trials:
    """Cases one after the other: the next begins with what the one before it ended with."""

    place: Place
    traffic: Traffic
    striker: Striker
    service: Service = field(default_factory=Service)
    """What runs."""
    _number: int = 0

    def run(self, case: Case) -> Outcome:
        """Whatever goes wrong is in what is returned."""
        self._number += 1
        outcome, watch = Outcome(case=case), CapacityWatch(self.place)
        self.striker.killed.clear()
        num_before, began = len(self.traffic.attempts), time.monotonic()
        watch.start()
        try:
            self._run(case, outcome)
        except NotInTimeError as error:
            outcome.wrong.append(str(error))
        finally:
            watch.stop()
        outcome.seconds = time.monotonic() - began
        outcome.load = os.getloadavg()[0]
        outcome.killed = dict(self.striker.killed)
        num_whole = len(self.traffic.attempts)
        self._wait_for_calls()
        outcome.num_calls = (num_before, num_whole, len(self.traffic.attempts))
        kills = list(outcome.killed.values())
        outcome.least_capacity = least_unexcused(watch.seen, kills, NUM_REPLICAS)
        if outcome.least_capacity != NUM_REPLICAS:
            outcome.wrong.append(f"only {outcome.least_capacity} replicas at some moment")
        return outcome

    def _run(self, case: Case, outcome: Outcome) -> None:
        before, wanted = self.place.newest()["number"], self.service.moved(case, self._number)
        self.place.apply(wanted.documents())
        wait_until(lambda: self.place.newest()["number"] > before, 20, "the rollout")
        outcome.rollout = self.place.newest()["number"]
        arms = self._arms(outcome.rollout)
        if case.candidate is Candidate.CRASHING:
            outcome.struck = keep_killing(self.striker, arms.candidate, self._is_over) > 1
        self._reach(case, outcome)
        struck = self.striker.strike(case.fault, arms)
        outcome.struck = struck or outcome.struck
        if not struck:
            outcome.wrong.append("the fault found nobody to strike")
        wait_until(self._is_over, _END_SECONDS, "the rollout to end")
        ended = self.place.newest()
        outcome.state, outcome.reason = ended["state"], ended["reason"]
        if outcome.state == "aborted":
            outcome.aborted_at_unix_ns = ended["ended_at_unix_ns"]
        self._judge_end(case, outcome)
        self.service = wanted if outcome.state == "promoted" else self.service
        wait_until(
            lambda: self._is_whole(outcome), _WHOLE_SECONDS, "all replicas of one revision alone"
        )

    def _arms(self, number: int) -> Arms:
        detail = self.place.detail(number)
        stable, candidate = (
            (detail[arm]["engine_config"], detail[arm]["model"]) for arm in ("stable", "candidate")
        )
        return Arms(stable=stable, candidate=candidate)

    def _is_over(self) -> bool:
        return self.place.newest()["state"] in OVER

    def _reach(self, case: Case, outcome: Outcome) -> None:
        """Block until the moment of the case; a rollout that is over can be waited for no more."""
        if case.moment is Moment.WAITING or case.candidate is Candidate.CRASHING:
            return

        def stands(states: tuple[str, ...], step: int) -> bool:
            newest = self.place.newest()
            return newest["state"] in OVER or (newest["state"] in states and newest["step"] >= step)

        step = 2 if case.moment is Moment.LAST_STEP else 1
        states = ("promoted",) if case.moment is Moment.PROMOTING else ("running",)
        wait_until(lambda: stands(states, step), _MOMENT_SECONDS, f"the moment: {case.moment}")
        if case.moment is Moment.STEP_ANALYSED:
            time.sleep(_ANALYSED_AFTER_SECONDS)
        elif case.moment is Moment.LAST_STEP:
            time.sleep(_MIDDLE_SECONDS)
        elif case.moment is Moment.ABORTING:
            self.place.abort(outcome.rollout)

    def _judge_end(self, case: Case, outcome: Outcome) -> None:
        wanted = "promoted" if case.is_good else "aborted"
        if outcome.state != wanted:
            outcome.wrong.append(f"it was {outcome.state}: {outcome.reason}")

    def _is_whole(self, outcome: Outcome) -> bool:
        """Replicas of one revision, that of the deployment, all ready, and no other process."""
        deployment = self.place.deployment()
        labels = {each["role"]: each["revision"] for each in deployment["revisions"]}
        alive = [lane for lane in deployment["lanes"] if not lane["is_ended"]]
        outcome.revisions = labels
        names = {each.name for each in self.place.installation.alive("replica")}
        return (
            [lane["state"] for lane in alive] == ["ready"] * NUM_REPLICAS
            and {lane["engine_config_revision"] for lane in alive} == {labels["engine config"]}
            and {lane["model_revision"] for lane in alive} == {labels["model"]}
            and names == {lane["replica_id"] for lane in alive}
            and self.place.num_connected() == NUM_REPLICAS
        )

    def _wait_for_calls(self) -> None:
        """Until some that began from now on have ended."""
        began = len(self.traffic.attempts)

        def ended() -> int:
            return sum(each.ended_at_unix_ns > 0 for each in self.traffic.attempts[began:])

        wait_until(lambda: ended() >= _CALLS_AFTER or not self.traffic.is_alive, 60, "calls")
