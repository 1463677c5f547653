"""One rule that looks at its mechanism from several sides, and says one thing.

Each look is a judgement of its own, with its own evidence. `surest_of` joins those that see
different things; `first_of` those of which an earlier one, which sees it more directly, explains
what the later ones would take it for. One look at each replica beside the look at all of them is
`views.places.with_places`. Signs that one look gathers in one argument are no looks.
"""

from collections.abc import Callable, Iterable

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.truth import Truth, truth_of
from controlplane.diagnosis.window import Window

Look = Callable[[Window], Verdict | None]
Find = Callable[[Argument, Activity, Truth], Confidence | None]
"""A look that leaves its evidence in an argument. None: it sees nothing."""


def surest_of(*looks: Look) -> Look:
    """What the surest of `looks` says of a window, the earlier one of two equally sure; None where
    none of them sees anything."""

    def judge(window: Window) -> Verdict | None:
        return surest(verdict for look in looks if (verdict := look(window)) is not None)

    return judge


def first_of(*looks: Look) -> Look:
    """What the first of `looks` says that sees anything, however sure a later one would be."""

    def judge(window: Window) -> Verdict | None:
        return next((verdict for look in looks if (verdict := look(window)) is not None), None)

    return judge


def look_of(
    find: Find, detail: str = "", weigh: Callable[[Argument, Activity], None] | None = None
) -> Look:
    """`find` as a look, with its `detail`, and with what `weigh` adds where it sees something."""

    def judge(window: Window) -> Verdict | None:
        argument, now = Argument(window), activity_of(window)
        truth = window.once(truth_of, lambda: truth_of(now))
        confidence = find(argument, now, truth)
        if confidence is None:
            return None
        if weigh is not None:
            weigh(argument, now)
        return argument.verdict(confidence, detail=detail)

    return judge


def surest(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The earlier one of two equally sure; None of none."""
    return max(verdicts, key=lambda verdict: verdict.confidence, default=None)
