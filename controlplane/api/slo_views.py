"""How promises stand, as API, page and terminal show them. Pure conversions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.api.silence_views import MaintenanceSpent, SilencedView, SilenceView

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.slo.alerting import Firing
    from controlplane.slo.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnView:
    """One window."""

    window: str
    """5m, 30m, 1h, 2h, 6h, 1d or 3d."""
    seconds: int
    num_good: int
    num_judged: int
    burn_rate: float | None
    """Times the pace at which the budget lasts exactly its period; None: nothing was judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringView:
    """An alert that fires."""

    grade: str
    """page_quick, page_slow, ticket_quick or ticket_slow."""
    severity: str
    """page or ticket."""
    factor: float
    """Both burn rates are above it."""
    long_burn_rate: float
    short_burn_rate: float
    silenced: SilencedView | None = None
    """Why nobody is told of it; None: notifications are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingView:
    """One objective of one class of one deployment."""

    deployment: str
    request_class: str
    objective: str
    """A signal, or together."""
    at_most_seconds: float | None
    target: float
    contract_revision: str
    state: str
    """ok, breaching, insufficient_data or no_data."""
    period_seconds: float
    num_good: int
    num_judged: int
    """Of the part of the period that is covered."""
    covered_seconds: float | None
    """Of the period, as far back as counts of the deployment go; None: no gateway ever told of
    it."""
    budget_remaining: float | None
    """Share of the error budget: 1 untouched, below 0 overspent; None: nothing was judged."""
    seconds_left: float | None
    """Until it is gone, at the burn of the last hour; None: it is not being spent."""
    burns: list[BurnView]
    firing: list[FiringView]
    left_out: list[str]
    """Alerts that can never fire at this target, or that the contract turns off: a sentence
    each."""
    notes: list[str]
    """Of a deployment that is only observed: who counts this objective and how, or why nobody
    can."""
    maintenance: MaintenanceSpent | None = None
    """What of the budget was spent in planned maintenance; None: no part of the period was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingList:
    """Every promise, by deployment and class."""

    as_of_unix_ns: int
    standings: list[StandingView]
    unpromised: list[str]
    """Deployments without a contract."""
    silences: list[SilenceView]
    """In force now, that keep alerts of any of `standings` back, whether one fires or not: the
    newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesView:
    """Rules for Prometheus."""

    contract: str | None
    """Its name; None for rules that are the same for all."""
    revisions: list[str]
    """Those that the rules were made of."""
    deployments: list[str]
    rules: str
    """A file of rules, in YAML."""
    left_out: list[str]
    """What is not in them, or not as the contract writes it: a sentence each."""


def view_standing(standing: "Standing") -> StandingView:
    """One promise."""
    from controlplane.slo.alerting import left_out

    promise = standing.promise
    return StandingView(
        deployment=promise.deployment,
        request_class=promise.request_class,
        objective=promise.objective,
        at_most_seconds=promise.at_most_seconds,
        target=promise.target,
        contract_revision=promise.contract_revision,
        state=standing.state.value,
        period_seconds=promise.period_seconds,
        num_good=standing.budget.good,
        num_judged=standing.budget.total,
        covered_seconds=standing.covered_seconds,
        budget_remaining=standing.remaining_share,
        seconds_left=standing.seconds_left,
        burns=_burns(standing),
        firing=[_view_firing(each) for each in standing.firing],
        left_out=list(left_out(promise.target, promise.period_seconds, promise.alerting)),
        notes=[],
    )


def _burns(standing: "Standing") -> list[BurnView]:
    from controlplane.slo.alert_windows import short

    return [
        BurnView(
            window=short(seconds),
            seconds=seconds,
            num_good=counts.good,
            num_judged=counts.total,
            burn_rate=standing.burn(seconds),
        )
        for seconds, counts in standing.counts_by_window.items()
    ]


def _view_firing(firing: "Firing") -> FiringView:
    return FiringView(
        grade=firing.threshold.grade.name.value,
        severity=firing.threshold.grade.severity.value,
        factor=float(firing.threshold.factor),
        long_burn_rate=firing.long_burn,
        short_burn_rate=firing.short_burn,
    )
