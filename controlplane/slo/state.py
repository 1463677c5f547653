"""How an objective stands: four states, and never two.

Whoever is not measured is not well. `insufficient_data` says that the service was there and too
little was asked of it to judge; `no_data` that nobody could see it, which is a trouble of its own
and no burn of the budget.
"""

from enum import StrEnum

from controlplane.slo.event_counts import EventCounts


class SLOState(StrEnum):
    """How one objective stands."""

    OK = "ok"
    BREACHING = "breaching"
    INSUFFICIENT_DATA = "insufficient_data"
    NO_DATA = "no_data"


def state_of(
    counts: EventCounts, *, is_seen: bool, is_firing: bool, is_overspent: bool, min_events: int
) -> SLOState:
    """From the counts of the longest window that is judged.

    `is_seen`: whoever counts was heard in that time; False makes it no_data, whatever was counted
    before. `is_firing`: some grade of it fires. `is_overspent`: more of the whole budget is gone
    than there was, which stays so when the burning ends.
    """
    if not is_seen:
        return SLOState.NO_DATA
    if is_firing or is_overspent:
        return SLOState.BREACHING
    return SLOState.OK if counts.total >= min_events else SLOState.INSUFFICIENT_DATA
