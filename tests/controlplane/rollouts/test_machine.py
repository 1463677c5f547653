"""What moves a rollout, and what never does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.rollouts.machine import (
    Demand,
    Facts,
    Progress,
    RolloutState,
    UnmetDemandError,
    advance,
    begin,
    demand,
    is_in_shadow,
    share_of,
)
from controlplane.rollouts.strategy import OnTimeout, Step, Strategy
from controlplane.rollouts.verdict import Decision, Verdict

S = 10**9
STRATEGY = Strategy(
    steps=(
        Step(share=0.05, seconds=60),
        Step(share=0.5, seconds=60, waits_for_person=True),
        Step(share=1.0, seconds=60),
    ),
    timeout_seconds=600,
)
READY = Facts(now_unix_ns=0, is_candidate_ready=True)
NEW = begin(0)
RUNNING = Progress(state=RolloutState.RUNNING, step=0, step_since_unix_ns=0, reason="ready")
PAUSED = replace(RUNNING, state=RolloutState.PAUSED)
LIVING = (NEW, RUNNING, PAUSED, replace(RUNNING, step=2))


def decided(verdict: Verdict) -> Decision:
    return Decision(verdict=verdict, reason=f"it is {verdict}")


def facts(seconds: float = 0, verdict: Verdict | None = None, freeze: str | None = None) -> Facts:
    return Facts(
        now_unix_ns=int(seconds * S),
        is_candidate_ready=True,
        decision=None if verdict is None else decided(verdict),
        freeze=freeze,
    )


def moved(progress: Progress, seen: Facts, strategy: Strategy = STRATEGY) -> Progress:
    found = advance(progress, strategy, seen)
    assert found is not None
    return found


def test_a_good_candidate_goes_through_all_steps_and_is_let_through_where_it_has_to_be() -> None:
    shares, now, at = [], 0.0, NEW
    while not at.state.is_over:
        now += 61
        at = moved(at, facts(now, Verdict.PROMOTE))
        if at.state is RolloutState.PAUSED:
            assert advance(at, STRATEGY, facts(now + 9999, Verdict.PROMOTE)) is None
            at = demand(at, STRATEGY, Demand.RESUME, facts(now))
        shares.append(share_of(at, STRATEGY))
    assert at.state is RolloutState.PROMOTED
    assert shares == [0.05, 0.5, 0.5, 1.0, 1.0]


def test_nothing_begins_before_the_candidate_is_ready() -> None:
    waiting = replace(READY, is_candidate_ready=False, now_unix_ns=599 * S)
    assert advance(NEW, STRATEGY, waiting) is None
    assert share_of(NEW, STRATEGY) == 0
    begun = moved(NEW, facts(100))
    assert (begun.state, begun.step_since_unix_ns) == (RolloutState.RUNNING, 100 * S)


@pytest.mark.parametrize("on_timeout", list(OnTimeout))
def test_a_candidate_that_does_not_get_ready_is_given_up_at_its_time(
    on_timeout: OnTimeout,
) -> None:
    late = replace(READY, is_candidate_ready=False, now_unix_ns=600 * S)
    given_up = moved(NEW, late, replace(STRATEGY, on_timeout=on_timeout))
    assert given_up.state is RolloutState.ABORTED
    assert "not ready within 600 s" in given_up.reason


@pytest.mark.parametrize("progress", LIVING)
def test_a_hard_stop_goes_back_at_once_from_anywhere_also_where_all_is_frozen(
    progress: Progress,
) -> None:
    seen = replace(facts(1, Verdict.PROMOTE, freeze="night"), hard_stop="it ran out of memory")
    back = moved(progress, seen)
    assert (back.state, back.reason) == (RolloutState.ABORTED, "it ran out of memory")
    assert share_of(back, STRATEGY) == 0


@pytest.mark.parametrize("progress", [RUNNING, PAUSED])
@pytest.mark.parametrize("freeze", [None, "night"])
def test_a_rejected_candidate_goes_back_before_its_time_while_paused_and_while_frozen(
    progress: Progress, freeze: str | None
) -> None:
    back = moved(progress, facts(1, Verdict.REJECT, freeze))
    assert back.state is RolloutState.ABORTED
    assert back.reason == "it is reject"


def test_a_step_is_not_over_before_its_time_however_good_it_looks() -> None:
    assert advance(RUNNING, STRATEGY, facts(59.9, Verdict.PROMOTE)) is None
    assert moved(RUNNING, facts(60, Verdict.PROMOTE)).step == 1


@pytest.mark.parametrize("verdict", [None, Verdict.UNDECIDED])
@pytest.mark.parametrize(
    ("on_timeout", "state"),
    [(OnTimeout.PAUSE, RolloutState.PAUSED), (OnTimeout.ABORT, RolloutState.ABORTED)],
)
def test_what_is_undecided_ends_at_its_time_as_it_was_said_to(
    verdict: Verdict | None, on_timeout: OnTimeout, state: RolloutState
) -> None:
    strategy = replace(STRATEGY, on_timeout=on_timeout)
    assert advance(RUNNING, strategy, facts(599, verdict)) is None
    ended = moved(RUNNING, facts(600, verdict), strategy)
    assert ended.state is state
    assert "undecided after 600 s" in ended.reason


@pytest.mark.parametrize("seconds", [61, 9999])
def test_a_freeze_holds_up_what_goes_forward(seconds: float) -> None:
    frozen = facts(seconds, Verdict.PROMOTE, freeze="night")
    assert advance(NEW, STRATEGY, frozen) is None
    assert advance(RUNNING, STRATEGY, frozen) is None
    with pytest.raises(UnmetDemandError, match="frozen: night"):
        demand(RUNNING, STRATEGY, Demand.PROMOTE, frozen)
    assert demand(RUNNING, STRATEGY, Demand.ABORT, frozen).state is RolloutState.ABORTED


def test_a_person_may_promote_what_is_undecided_and_pause_and_resume_any_step() -> None:
    assert demand(RUNNING, STRATEGY, Demand.PROMOTE, facts(5)).step == 1
    assert demand(PAUSED, STRATEGY, Demand.PROMOTE, facts(5)).state is RolloutState.RUNNING
    assert demand(RUNNING, STRATEGY, Demand.PAUSE, facts(5)).state is RolloutState.PAUSED
    resumed = demand(PAUSED, STRATEGY, Demand.RESUME, facts(5))
    assert (resumed.state, resumed.step_since_unix_ns) == (RolloutState.RUNNING, 0)
    last = replace(RUNNING, step=2)
    assert demand(last, STRATEGY, Demand.PROMOTE, facts(5)).state is RolloutState.PROMOTED


@pytest.mark.parametrize(
    ("progress", "asked"),
    [
        (NEW, Demand.PROMOTE),
        (NEW, Demand.PAUSE),
        (RUNNING, Demand.RESUME),
        (PAUSED, Demand.PAUSE),
        *((replace(RUNNING, state=RolloutState.PROMOTED), asked) for asked in Demand),
        *((replace(RUNNING, state=RolloutState.ABORTED), asked) for asked in Demand),
    ],
)
def test_what_cannot_be_asked_is_refused_with_where_it_is(
    progress: Progress, asked: Demand
) -> None:
    with pytest.raises(UnmetDemandError, match=f"it is {progress.state}"):
        demand(progress, STRATEGY, asked, READY)


verdicts = st.none() | st.sampled_from(list(Verdict))
seen_later = st.builds(
    Facts,
    now_unix_ns=st.integers(0, 10_000 * S),
    is_candidate_ready=st.booleans(),
    decision=verdicts.map(lambda verdict: None if verdict is None else decided(verdict)),
    hard_stop=st.none() | st.just("oom"),
    freeze=st.none() | st.just("night"),
)


@given(st.lists(st.tuples(st.integers(0, 700 * S), seen_later), max_size=30))
def test_whatever_happens_steps_go_one_by_one_and_an_end_is_the_end(
    happened: list[tuple[int, Facts]],
) -> None:
    now, at = 0, NEW
    for waited, seen in happened:
        now += waited
        seen_now = replace(seen, now_unix_ns=now)
        after = advance(at, STRATEGY, seen_now)
        if after is None:
            continue
        assert not at.state.is_over
        is_forward = share_of(after, STRATEGY) > share_of(at, STRATEGY)
        if is_forward:
            assert seen.freeze is None
            assert seen.hard_stop is None
            assert after.step - at.step in (0, 1)
        if after.state is RolloutState.PROMOTED:
            assert at.step == len(STRATEGY.steps) - 1
            assert seen.decision is not None
            assert seen.decision.verdict is Verdict.PROMOTE
        at = after


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"steps": ()}, "got none"),
        ({"steps": (Step(share=0.5), Step(share=0.5))}, "shares that grow"),
        ({"steps": (Step(share=0.5, seconds=600),)}, "no such step could end well"),
    ],
)
def test_a_strategy_that_cannot_work_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(STRATEGY, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.1}, {"share": 0.5, "seconds": -1}])
def test_a_step_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a step needs"):
        Step(**wrong)  # type: ignore[arg-type]


def test_a_step_in_shadow_gives_nothing_away_and_ends_as_any_other() -> None:
    strategy = replace(STRATEGY, steps=(Step(share=0, seconds=60, is_shadow=True), *STRATEGY.steps))
    running = moved(NEW, facts(1), strategy)
    assert (share_of(running, strategy), is_in_shadow(running, strategy)) == (0.0, True)
    assert not is_in_shadow(NEW, strategy)
    first = moved(running, facts(70, Verdict.PROMOTE), strategy)
    assert (share_of(first, strategy), is_in_shadow(first, strategy)) == (0.05, False)
    back = moved(running, facts(2, Verdict.REJECT), strategy)
    assert back.state is RolloutState.ABORTED
    assert (strategy.share_ahead(0), strategy.share_ahead(1)) == (0.05, 0.05)


@pytest.mark.parametrize(
    "steps",
    [
        (Step(share=0, is_shadow=True),),
        (Step(share=0.1), Step(share=0, is_shadow=True)),
        (Step(share=0, is_shadow=True), Step(share=0, is_shadow=True), Step(share=0.1)),
    ],
)
def test_a_shadow_is_the_first_of_several_steps(steps: tuple[Step, ...]) -> None:
    with pytest.raises(ValueError, match="step"):
        Strategy(steps=steps, timeout_seconds=600)
