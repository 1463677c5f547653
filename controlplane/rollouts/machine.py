"""A rollout's states, and what moves it from one to another. Pure.

    waiting --ready--> running --promote--> running (next step) ... --promote--> promoted
       |                 |  ^
       |            pause|  |resume           reject, a hard stop or a person, from any of
       |                 v  |                 the three, at any time: aborted
       |                paused
       +------------------------------------------------------------> aborted

Level-triggered: `advance` looks at what is, names at most one move, and may be asked the same again
after a crash. What goes back never waits: neither for a step's time, nor for a pause, nor for a
freeze, which holds up what goes forward alone.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from controlplane.rollouts.strategy import OnTimeout, Step, Strategy
from controlplane.rollouts.verdict import Decision, Verdict


class RolloutState(StrEnum):
    """Where a rollout stands."""

    WAITING = "waiting"
    """For replicas of the candidate; all traffic is with the stable arm."""
    RUNNING = "running"
    """A step is looked at."""
    PAUSED = "paused"
    """The step's share stays, and somebody has to say how it goes on."""
    PROMOTED = "promoted"
    """The candidate is what runs."""
    ABORTED = "aborted"
    """What ran before is what runs."""

    @property
    def is_over(self) -> bool:
        """Nothing moves it any more."""
        return self in (RolloutState.PROMOTED, RolloutState.ABORTED)


class Demand(StrEnum):
    """What a person asks of a rollout."""

    PROMOTE = "promote"
    """On to the next step, whatever the analysis says."""
    PAUSE = "pause"
    RESUME = "resume"
    """On with this step; where it waited for a person, it need not again."""
    ABORT = "abort"


class UnmetDemandError(ValueError):
    """A rollout is not where that can be asked of it; the message says where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a rollout is."""

    state: RolloutState
    step: int
    """Which of its steps, from 0."""
    step_since_unix_ns: int
    """When the step began; of one that waits, when the rollout did."""
    reason: str
    """Why it is there."""
    is_let_through: bool = False
    """A person has let this step go on by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of it now."""

    now_unix_ns: int
    is_candidate_ready: bool
    """It can take the share of the step."""
    decision: Decision | None = None
    """Of the analysis of this step; None: there was none yet."""
    hard_stop: str | None = None
    """Why the candidate must not go on, whatever the analysis says: it ran out of memory, it
    crashes again and again, it hangs."""
    freeze: str | None = None
    """Why nothing may go forward; None: it may."""


def begin(now_unix_ns: int) -> Progress:
    """Of a new rollout."""
    return Progress(
        state=RolloutState.WAITING,
        step=0,
        step_since_unix_ns=now_unix_ns,
        reason="the candidate is being made ready",
    )


def share_of(progress: Progress, strategy: Strategy) -> float:
    """The candidate's, of the traffic, 0 to 1."""
    match progress.state:
        case RolloutState.RUNNING | RolloutState.PAUSED:
            return strategy.steps[progress.step].share
        case RolloutState.PROMOTED:
            return 1.0
        case RolloutState.WAITING | RolloutState.ABORTED:
            return 0.0


def is_in_shadow(progress: Progress, strategy: Strategy) -> bool:
    """The candidate's policy decides beside the one that is enforced."""
    is_at_step = progress.state in (RolloutState.RUNNING, RolloutState.PAUSED)
    return is_at_step and strategy.steps[progress.step].is_shadow


def advance(progress: Progress, strategy: Strategy, facts: Facts) -> Progress | None:
    """Where it goes now; None: it stays."""
    if progress.state.is_over:
        return None
    if facts.hard_stop is not None:
        return _abort(progress, facts.hard_stop)
    if progress.state is not RolloutState.WAITING and _is(facts, Verdict.REJECT):
        return _abort(progress, _reason(facts))
    if progress.state is RolloutState.PAUSED:
        return None
    if progress.state is RolloutState.WAITING:
        return _begin_first_step(progress, strategy, facts)
    return _go_on(progress, strategy, facts)


def demand(
    progress: Progress, strategy: Strategy, asked: Demand, facts: Facts, why: str = ""
) -> Progress:
    """Where a person's demand takes it, who says `why`. Raises UnmetDemandError."""
    state, said = progress.state, f": {why}" if why else ""
    if state.is_over:
        raise UnmetDemandError(f"it is {state} already: {progress.reason}")
    match asked:
        case Demand.ABORT:
            return _abort(progress, f"a person aborted it{said}")
        case Demand.PAUSE if state is RolloutState.RUNNING:
            reason = f"a person paused it{said}"
            return replace(progress, state=RolloutState.PAUSED, reason=reason)
        case Demand.RESUME if state is RolloutState.PAUSED:
            reason = f"a person resumed it{said}"
            return replace(progress, state=RolloutState.RUNNING, reason=reason, is_let_through=True)
        case Demand.PROMOTE if state is not RolloutState.WAITING:
            if facts.freeze is not None:
                raise UnmetDemandError(f"rollouts are frozen: {facts.freeze}")
            return _next_step(progress, strategy, facts, f"a person promoted it{said}")
        case _:
            raise UnmetDemandError(f"it is {state}, and cannot {asked}: {progress.reason}")


def _begin_first_step(progress: Progress, strategy: Strategy, facts: Facts) -> Progress | None:
    if not facts.is_candidate_ready:
        if _seconds_in_step(progress, facts) < strategy.timeout_seconds:
            return None
        return _abort(progress, f"it was not ready within {strategy.timeout_seconds:g} s")
    if facts.freeze is not None:
        return None
    return replace(
        progress,
        state=RolloutState.RUNNING,
        step_since_unix_ns=facts.now_unix_ns,
        reason="the candidate is ready",
    )


def _go_on(progress: Progress, strategy: Strategy, facts: Facts) -> Progress | None:
    step = strategy.steps[progress.step]
    seconds = _seconds_in_step(progress, facts)
    if seconds >= step.seconds and _is(facts, Verdict.PROMOTE):
        return _end_well(progress, strategy, step, facts)
    if seconds < strategy.timeout_seconds:
        return None
    why = f"undecided after {strategy.timeout_seconds:g} s: {_reason(facts)}"
    if strategy.on_timeout is OnTimeout.ABORT:
        return _abort(progress, why)
    return replace(progress, state=RolloutState.PAUSED, reason=why)


def _end_well(progress: Progress, strategy: Strategy, step: Step, facts: Facts) -> Progress | None:
    if step.waits_for_person and not progress.is_let_through:
        reason = f"it waits for a person: {_reason(facts)}"
        return replace(progress, state=RolloutState.PAUSED, reason=reason)
    if facts.freeze is not None:
        return None
    return _next_step(progress, strategy, facts, _reason(facts))


def _next_step(progress: Progress, strategy: Strategy, facts: Facts, reason: str) -> Progress:
    is_last = progress.step + 1 == len(strategy.steps)
    return Progress(
        state=RolloutState.PROMOTED if is_last else RolloutState.RUNNING,
        step=progress.step if is_last else progress.step + 1,
        step_since_unix_ns=facts.now_unix_ns,
        reason=reason,
    )


def _seconds_in_step(progress: Progress, facts: Facts) -> float:
    return (facts.now_unix_ns - progress.step_since_unix_ns) / 1e9


def _abort(progress: Progress, reason: str) -> Progress:
    return replace(progress, state=RolloutState.ABORTED, reason=reason)


def _is(facts: Facts, verdict: Verdict) -> bool:
    return facts.decision is not None and facts.decision.verdict is verdict


def _reason(facts: Facts) -> str:
    return "nothing was measured" if facts.decision is None else facts.decision.reason
