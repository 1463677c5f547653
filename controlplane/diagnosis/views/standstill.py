"""A replica that tells the same again and again while the rest of the fleet goes on: either it does
nothing, or nobody sees what it does."""

from dataclasses import dataclass

from controlplane.diagnosis.citing import number, stands
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import Fleet, Replica, fleet_of, grown, mean_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

LEAST_SECONDS = 20.0
"""Ten scrapes at the shortest usual interval; no step takes so long."""
_TAKEN_OVER = 0.25
"""Of what a replica does on average: what is answered beside the others' work is less than that
where one of them does nothing, and all of it where only its page stands still."""
_SEEN_ELSEWHERE = 0.5
_PILED_UP = 2.0
_A_FEW = 5.0
"""Requests in flight: with a handful chance doubles them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """What stands still, since when, and whether answers come out of it all the same."""

    replicas: tuple[Replica, ...]
    since: float
    is_working: bool | None
    """None: nobody counts what would show it."""
    says: tuple[str, ...]

    @property
    def holds_work(self) -> bool:
        """By its last figures something runs or waits there."""
        return any(
            series.last.value > 0
            for each in self.replicas
            for signal in (Signal.RUNNING, Signal.WAITING)
            if (series := each.find(signal)) is not None
        )


def standstill_of(window: Window) -> Standstill | None:
    """None where all replicas move, or none works."""
    fleet = fleet_of(window)
    if fleet is None:
        return None
    still = tuple(each for each in fleet.replicas if _stands_still(each, window.end))
    if not still or not any(_had_work(each) for each in still):
        return None
    since = max(each.changed_at for each in still)
    moving = tuple(each for each in fleet.replicas if each not in still)
    ended = fleet.gateway(Signal.GATEWAY_ENDED)
    if not any(_moves(each, since, window.end) for each in moving) and not grown(
        ended, since, window.end
    ):
        return None
    is_working, says = _is_working(fleet, still, moving, since)
    return Standstill(replicas=still, since=since, is_working=is_working, says=says)


def cite(argument: Argument, found: Standstill) -> None:
    """Its figures."""
    for replica in found.replicas[:2]:
        for signal in (Signal.RUNNING, Signal.GENERATION_TOKENS, Signal.KV_USAGE):
            series = replica.find(signal)
            part = None if series is None else series.between(found.since, series.last.at)
            if part is not None and len(part.readings) > 1:
                argument.says(f"{replica.name}: {stands(part)}")
    for sentence in found.says:
        argument.says(sentence)


def _stands_still(replica: Replica, end: float) -> bool:
    last = max(each.last.at for each in replica.series)
    if end - last > LEAST_SECONDS or not replica.counters:
        return False
    return last - replica.changed_at >= LEAST_SECONDS


def _had_work(replica: Replica) -> bool:
    """At the last, or before: an idle replica stands still as well."""
    running = replica.find(Signal.RUNNING)
    return (running is not None and running.last.value > 0) or any(
        each.increase for each in replica.counters
    )


def _moves(replica: Replica, start: float, end: float) -> bool:
    return any(grown(each, start, end) > 0 for each in replica.counters)


def _is_working(
    fleet: Fleet, still: tuple[Replica, ...], moving: tuple[Replica, ...], since: float
) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the gateway sees answers that no moving replica gave."""
    end = fleet.window.end
    leaked = fleet.gateway(Signal.LEAKED)
    if leaked is not None and grown(leaked, since, end) > 0:
        return False, (f"{leaked.origin.name} {leaked.first.raw} -> {leaked.last.raw} meanwhile",)
    running = sum(
        series.last.value for each in still if (series := each.find(Signal.RUNNING)) is not None
    )
    if not moving:
        return _by_backlog(fleet, since)
    ended = fleet.gateway(Signal.GATEWAY_ENDED)
    if ended is not None:
        answered = [each.total(Signal.FINISHED, since, end) for each in moving]
        if all(value is not None for value in answered):
            others = sum(value or 0.0 for value in answered)
            beside = grown(ended, since, end) - others - running
            said = (
                f"the gateway saw {number(grown(ended, since, end))} requests end, of which the "
                f"other replicas finished {number(others)}",
            )
            return _verdict(beside, others / len(moving)), said
    return _by_load(fleet, moving, since)


def _by_backlog(fleet: Fleet, since: float) -> tuple[bool | None, tuple[str, ...]]:
    """Nothing moves anywhere: whether requests pile up. Endings alone do not tell, since callers
    that give up end as well."""
    start, end = fleet.window.start, fleet.window.end
    sent = fleet.gateway(Signal.GATEWAY_IN_FLIGHT)
    before, after = mean_of(sent, start, since), mean_of(sent, end - LEAST_SECONDS, end)
    if sent is None or before is None or after is None:
        return None, ()
    says = (f"{sent.origin.name} {number(before)} -> {number(after)} on average meanwhile",)
    return after < _PILED_UP * before + _A_FEW, says


def _verdict(beside: float, usual: float) -> bool | None:
    """`beside`: answers that came from none that moves; `usual`: what one gives meanwhile."""
    if beside >= _SEEN_ELSEWHERE * usual:
        return True
    return False if beside <= _TAKEN_OVER * usual else None


def _by_load(
    fleet: Fleet, moving: tuple[Replica, ...], since: float
) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the others took its share over: then each of them has more to do than before, for
    each request that arrives."""
    start, end = fleet.window.start, fleet.window.end
    arrived = fleet.gateway(Signal.GATEWAY_ARRIVED)
    if not moving or since - start < LEAST_SECONDS or arrived is None:
        return None, ()
    before = sum(each.total(Signal.GENERATION_TOKENS, start, since) or 0.0 for each in moving)
    after = sum(each.total(Signal.GENERATION_TOKENS, since, end) or 0.0 for each in moving)
    came_before, came_after = grown(arrived, start, since), grown(arrived, since, end)
    if min(before, came_before, came_after) <= 0:
        return None, ()
    ratio = (after / came_after) / (before / came_before)
    taken_over = len(fleet.replicas) / len(moving)
    says = (
        f"the other replicas select {ratio:.2f} times as many tokens for each request that "
        f"arrives as before; {taken_over:.2f} times if they had taken everything over",
    )
    return ratio < (1 + taken_over) / 2, says
