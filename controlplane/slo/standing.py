"""How each promise stands now: burn rates, what fires, what is left of the budget. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.slo.alert_windows import BURN_WINDOWS
from controlplane.slo.alerting import Firing, firing
from controlplane.slo.burn_rate import burn_rate, remaining_share, seconds_to_exhaustion
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.promised import Promise
from controlplane.slo.state import SLOState, state_of

_LONGEST = BURN_WINDOWS[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One promise, as of one moment."""

    promise: Promise
    state: SLOState
    counts_by_window: Mapping[int, EventCounts]
    """By seconds, for each of BURN_WINDOWS."""
    budget: EventCounts
    """Of the whole period, or of as much of it as there are counts of."""
    firing: tuple[Firing, ...]
    """The most urgent first."""
    covered_seconds: float | None = None
    """Of the period, as far back as counts of the deployment go: less than the period where it is
    young, or counts are kept for less. None: no gateway ever told of it."""

    def burn(self, seconds: int) -> float | None:
        """Over one window; None where nothing was judged in it."""
        return burn_rate(self.counts_by_window[seconds], self.promise.target)

    @property
    def remaining_share(self) -> float | None:
        """Of the error budget: 1 untouched, below 0 overspent; None where nothing was judged."""
        return remaining_share(self.budget, self.promise.target)

    @property
    def seconds_left(self) -> float | None:
        """Until the budget is gone at the burn of the last hour; None: it is not spent, or nothing
        was judged."""
        burn, remaining = self.burn(3_600), self.remaining_share
        if burn is None or remaining is None:
            return None
        return seconds_to_exhaustion(burn, self.promise.period_seconds, remaining)


def standing_of(
    promise: Promise,
    counts_by_window: Mapping[int, EventCounts],
    budget: EventCounts,
    *,
    is_seen: bool,
    covered_seconds: float | None = None,
) -> Standing:
    """`is_seen`: a gateway that serves the deployment was heard of late."""
    counts = {seconds: counts_by_window.get(seconds, NO_EVENTS) for seconds in BURN_WINDOWS}
    fires = firing(counts.__getitem__, promise.target, promise.period_seconds, promise.alerting)
    min_events = promise.alerting.min_events
    left = remaining_share(budget, promise.target)
    state = state_of(
        counts[_LONGEST],
        is_seen=is_seen,
        is_firing=bool(fires),
        is_overspent=budget.total >= min_events and (left is not None and left < 0),
        min_events=min_events,
    )
    return Standing(
        promise=promise,
        state=state,
        counts_by_window=counts,
        budget=budget,
        firing=fires if is_seen else (),
        covered_seconds=covered_seconds,
    )
