"""The thread that moves rollouts while the control plane runs.

Level-triggered: each turn reads what is stored, what the operator sees and how requests fare, and
makes at most one move of each rollout, in one transaction. Killed at any moment, the next one goes
on from what is stored.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from controlplane.operator.observed import ObservedState
from controlplane.store.arm_book import ArmBook
from controlplane.store.contract_terms import ContractTermsBook
from controlplane.store.database import Database
from dataplane.clock import WallClock, wall_clock
from dataplane.policy import OverrideKind

if TYPE_CHECKING:
    from controlplane.operator.operator import Operator
    from controlplane.rollouts.analysis.step import StepAnalysis
    from controlplane.rollouts.machine import Facts
    from controlplane.store.deployments import DesiredDeployment
    from controlplane.store.overrides import StoredOverride
    from controlplane.store.rollouts import Measured, StoredRollout

_TURN_SECONDS = 1.0
_ANALYSIS_SECONDS = 3.0
"""A policy that is found bad must be back within five seconds."""
_FAILURES = 2
"""Of a candidate's replicas in a row: one may have been the machine's."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the arms' requests said of a step at one moment."""

    at_unix_ns: int
    step_since_unix_ns: int
    seconds: float
    """That reading and comparing them took."""
    analysis: "StepAnalysis"


def find_freeze(in_force: "Sequence[StoredOverride]", deployment: str) -> str | None:
    """Why no rollout of the deployment goes forward, by the newest override that says so."""
    for each in in_force:
        if each.kind is OverrideKind.FREEZE and each.deployment in (None, deployment):
            return f"{each.created_by}: {each.reason}"
    return None


class RolloutWorker:
    """Turns until it is stopped; an error ends a turn, never it, and is shown."""

    def __init__(
        self,
        config_db: Database,
        request_db: Database,
        operator: "Operator",
        observed: ObservedState,
        clock: WallClock = wall_clock,
        on_move: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_move` is called after each: gateways have to hear of it."""
        self.error: str | None = None
        """Why the last turn failed; None when it did not."""
        self.num_turns = 0
        self._looks: dict[int, Look] = {}
        self._config_db = config_db
        self._request_db = request_db
        self._book = ArmBook(ContractTermsBook(config_db).find)
        self._operator = operator
        self._observed = observed
        self._clock = clock
        self._on_move = on_move
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="rollouts", daemon=True)

    @property
    def looks(self) -> Mapping[int, Look]:
        """The last at each rollout that is under way, by number."""
        return self._looks

    def start(self) -> None:
        """Begin the first turn."""
        self._thread.start()

    def wake(self) -> None:
        """Look again now. Safe from any thread."""
        self._wake.set()

    def stop(self) -> None:
        """End after the turn under way."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.clear()
            try:
                self.turn()
            # A database that is away, or whatever else: the next turn starts from what is.
            except Exception as error:  # noqa: BLE001
                self.error = f"{type(error).__name__}: {error}"
                _log.exception("turn of rollouts failed")
            else:
                self.error = None
            self.num_turns += 1
            self._wake.wait(_TURN_SECONDS)

    def turn(self) -> None:
        """Move each rollout that has to move."""
        from controlplane.store.deployments import list_readable_deployments

        with self._config_db.reading() as session:
            deployments, _ = list_readable_deployments(session)
        living = [(each, each.rollout) for each in deployments if each.rollout is not None]
        numbers = {rollout.number for _, rollout in living}
        self._looks = {number: look for number, look in self._looks.items() if number in numbers}
        self._book.keep_only(numbers)
        failed = []
        for deployment, rollout in living:
            # One that cannot be judged or moved must not hold up the others.
            try:
                self._advance(deployment, rollout)
            except Exception as error:  # noqa: BLE001
                _log.exception("rollout not looked at", rollout=rollout.number)
                failed.append(f"rollout {rollout.number}: {type(error).__name__}: {error}")
        if failed:
            raise RuntimeError("; ".join(failed))

    def _advance(self, deployment: "DesiredDeployment", rollout: "StoredRollout") -> None:
        from controlplane.rollouts.machine import advance
        from controlplane.store.rollout_demands import advance_rollout
        from controlplane.store.rollouts import StaleRolloutError

        look = self._look(deployment, rollout)
        facts = self._facts(deployment, rollout, look)
        progress = advance(rollout.progress, rollout.strategy, facts)
        if progress is None:
            return
        measured = None if look is None else measured_by(look.analysis)
        try:
            with self._config_db.session() as session:
                advance_rollout(
                    session, rollout, progress, measured=measured, now_unix_ns=facts.now_unix_ns
                )
        except StaleRolloutError as error:
            _log.info("rollout moved by somebody else", why=str(error))
            return
        _log.info(
            "rollout moved",
            rollout=rollout.number,
            deployment=rollout.deployment,
            state=progress.state.value,
            step=progress.step,
            reason=progress.reason,
        )
        self._on_move()

    def _facts(
        self, deployment: "DesiredDeployment", rollout: "StoredRollout", look: Look | None
    ) -> "Facts":
        from controlplane.rollouts.machine import Facts

        return Facts(
            now_unix_ns=self._clock(),
            is_candidate_ready=self._is_ready(deployment, rollout),
            decision=None if look is None else look.analysis.decision,
            hard_stop=self._find_hard_stop(deployment, rollout),
            freeze=find_freeze(self._observed.overrides(), rollout.deployment),
        )

    def _is_ready(self, deployment: "DesiredDeployment", rollout: "StoredRollout") -> bool:
        from controlplane.operator.desired import rollout_sizes

        if not rollout.has_own_replicas:
            return True
        ready = [
            each
            for each in self._observed.replicas()
            if each.rollout == rollout.number and each.state == "ready"
        ]
        return len(ready) >= rollout_sizes(deployment, rollout).candidate > 0

    def _find_hard_stop(
        self, deployment: "DesiredDeployment", rollout: "StoredRollout"
    ) -> str | None:
        from controlplane.operator.desired import rollout_sizes

        if rollout.has_own_replicas and not rollout_sizes(deployment, rollout).candidate:
            return (
                "replicas of the candidate have no room beside the stable arm, which keeps its "
                "last one: set replacement.max_surge in the Deployment where there is memory for "
                "one more, or replicas to 2 or more, and retry"
            )
        num_failures = self._operator.candidate_failures.get(rollout.number, 0)
        if num_failures < _FAILURES:
            return None
        why = self._operator.candidate_holds.get(rollout.number, "")
        return f"replicas of the candidate failed {num_failures} times in a row{why and ': '}{why}"

    def _look(self, deployment: "DesiredDeployment", rollout: "StoredRollout") -> Look | None:
        """The last look, or a new one where it is due."""
        from controlplane.rollouts.machine import RolloutState

        if rollout.progress.state is RolloutState.WAITING:
            return None
        last = self._looks.get(rollout.number)
        if last is not None and self._is_recent(last, rollout):
            return last
        look = self._analyse(deployment, rollout)
        self._looks = {**self._looks, rollout.number: look}
        return look

    def _is_recent(self, last: Look, rollout: "StoredRollout") -> bool:
        seconds = (self._clock() - last.at_unix_ns) / 1e9
        is_of_step = last.step_since_unix_ns == rollout.progress.step_since_unix_ns
        # After a long one, as the first of very many requests, others have their turn.
        pause = max(_ANALYSIS_SECONDS, last.seconds)
        return is_of_step and 0 <= seconds < pause

    def _analyse(self, deployment: "DesiredDeployment", rollout: "StoredRollout") -> Look:
        now, began = self._clock(), time.monotonic()
        is_shadow = rollout.strategy.steps[rollout.progress.step].is_shadow
        analysis = (
            self._analyse_shadow(rollout) if is_shadow else self._analyse_arms(deployment, rollout)
        )
        return Look(
            at_unix_ns=now,
            step_since_unix_ns=rollout.progress.step_since_unix_ns,
            seconds=time.monotonic() - began,
            analysis=analysis,
        )

    def _analyse_shadow(self, rollout: "StoredRollout") -> "StepAnalysis":
        from controlplane.rollouts.analysis.step import analyse_shadow
        from controlplane.store.shadow_decisions import read_shadow

        progress = rollout.progress
        with self._request_db.reading() as session:
            seen = read_shadow(
                session, rollout.deployment, rollout.number, progress.step_since_unix_ns
            )
        step = rollout.strategy.steps[progress.step]
        return analyse_shadow(seen, rollout.spec.terms, step.different_at_most)

    def _analyse_arms(
        self, deployment: "DesiredDeployment", rollout: "StoredRollout"
    ) -> "StepAnalysis":
        from controlplane.rollouts.analysis.step import analyse_step
        from controlplane.slo.promised_now import promises_now
        from controlplane.store.arm_requests import StepScope

        progress, terms = rollout.progress, rollout.spec.terms
        scope = StepScope(
            deployment=rollout.deployment,
            rollout=rollout.number,
            since_unix_ns=progress.step_since_unix_ns,
        )
        with self._request_db.reading() as session:
            tally = self._book.tally(session, scope, terms.measures)
        return analyse_step(
            tally,
            list(promises_now([deployment])),
            terms,
            share=rollout.strategy.steps[progress.step].share,
        )


def measured_by(analysis: "StepAnalysis") -> "Measured":
    """As it is kept with the move that it decided."""
    from controlplane.rollouts.told import tell, tell_shadow, tell_standing
    from controlplane.store.rollouts import Measured

    seen = analysis.shadow

    return Measured(
        comparisons=[tell(each) for each in analysis.comparisons],
        standings=[tell_standing(each) for each in analysis.standings],
        shadow=None if seen is None else tell_shadow(seen, analysis.differing),
    )
