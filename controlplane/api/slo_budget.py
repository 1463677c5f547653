"""How the error budgets of one deployment went: what was left of each, step by step, in the form
that charts are drawn from, with planned maintenance marked and never taken out."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from sqlalchemy.orm import Session
from starlette.datastructures import State

from controlplane.api.charts import Chart, Line
from controlplane.api.series import Series, all_marks
from controlplane.api.silence_marks import read_bands
from controlplane.slo.alert_windows import MINUTE
from controlplane.slo.budget_course import budget_course
from controlplane.slo.burn_rate import percent
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.promised import Promise
from controlplane.slo.promised_now import promises_now
from controlplane.specs.quantity import format_duration
from controlplane.store.database import Database
from controlplane.store.deployments import list_readable_deployments
from controlplane.store.objective_buckets import BucketsByObjective, read_objective_buckets
from controlplane.store.objective_counts import ObjectiveKey, read_objective_counts
from controlplane.store.series import SeriesSpan
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1/slo", tags=["slo"])

_STEP_BY_RANGE = {"6h": 300, "1d": 3600, "7d": 7200, "30d": 21600}
_SECONDS_BY_RANGE = {"6h": 21600, "1d": 86400, "7d": 604800, "30d": 2592000}
RANGES = tuple(_SECONDS_BY_RANGE)
DEFAULT_RANGE = "1d"


class BudgetError(ValueError):
    """A range or a deployment that cannot be answered for; the message says what can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCourse(Series):
    """Of one deployment, a chart for each objective, named `class.objective`; its line `budget` has
    the share that was left at the end of each step, below 0 overspent."""

    contract_revision: str


@router.get("/budget/{deployment}", responses={404: {"description": "It has no contract."}})
def get_budget_course(
    deployment: str,
    request: Request,
    range_: Annotated[str, Query(alias="range")] = DEFAULT_RANGE,
) -> BudgetCourse:
    """What was left of each error budget of `deployment` over `range` (6h, 1d, 7d or 30d), from
    the exact counts of this control plane."""
    if range_ not in RANGES:
        raise HTTPException(422, f"range: {range_[:32]!r} is none of {', '.join(RANGES)}")
    try:
        return read_budget_course(request.app.state, deployment, range_, wall_clock())
    except BudgetError as error:
        raise HTTPException(404, str(error)) from error


def read_budget_course(
    state: State, deployment: str, range_: str, now_unix_ns: int
) -> BudgetCourse:
    """`range_`: one of RANGES. Raises BudgetError for who promises nothing."""
    promises = _promises(state.config_db, deployment)
    span = _span(range_, now_unix_ns)
    with state.request_db.reading() as session:
        charts = _charts(session, span, promises)
    return BudgetCourse(
        as_of_unix_ns=now_unix_ns,
        range=range_,
        deployment=deployment,
        contract_revision=promises[0].contract_revision,
        start_unix=span.start_unix,
        end_unix=span.end_unix,
        step_seconds=span.step_seconds,
        last_step_seconds=span.bucket_seconds[-1],
        times_unix=[
            span.start_unix + number * span.step_seconds
            for number in range(len(span.bucket_seconds))
        ],
        charts=charts,
        marks=all_marks(state.config_db, span, deployment, state.process_history),
        bands=read_bands(state.config_db, span, deployment),
    )


def _promises(database: Database, deployment: str) -> list[Promise]:
    with database.reading() as session:
        desired = list_readable_deployments(session)[0]
    found = next((each for each in desired if each.name == deployment), None)
    if found is None:
        raise BudgetError(f"there is no deployment {deployment[:128]}")
    if found.revisions.contract is None:
        raise BudgetError(f"{deployment} is under no contract: it has no budget")
    return list(promises_now([found]))


def _span(range_: str, now_unix_ns: int) -> SeriesSpan:
    """Whole steps, and what has passed of the one after; the minute under way is left out."""
    step = _STEP_BY_RANGE[range_]
    end = now_unix_ns // 10**9 // MINUTE * MINUTE
    start = end // step * step - _SECONDS_BY_RANGE[range_]
    return SeriesSpan(start_unix=start, end_unix=end, step_seconds=step)


def _charts(session: Session, span: SeriesSpan, promises: list[Promise]) -> list[Chart]:
    """All promises of one contract have one period."""
    deployment = promises[0].deployment
    period = max(MINUTE, round(promises[0].period_seconds) // MINUTE * MINUTE)
    first = span.start_unix - period
    earlier = SeriesSpan(
        start_unix=first, end_unix=span.end_unix - period, step_seconds=span.step_seconds
    )
    before = read_objective_counts(session, first, span.start_unix, deployment)
    came_in = read_objective_buckets(session, span, deployment)
    went_out = read_objective_buckets(session, earlier, deployment)
    length = len(span.bucket_seconds)
    charts = []
    for promise in promises:
        key = ObjectiveKey(deployment, promise.request_class, promise.objective)
        course = budget_course(
            before.get(key, NO_EVENTS),
            _events(came_in, promise, length),
            _events(went_out, promise, length),
            promise.target,
        )
        charts.append(_chart(promise, course))
    return charts


def _events(buckets: BucketsByObjective, promise: Promise, length: int) -> list[EventCounts]:
    of = promise.request_class, promise.objective
    return buckets.get(of, [NO_EVENTS] * length)


def _chart(promise: Promise, course: list[float | None]) -> Chart:
    period = format_duration(promise.period_seconds)
    return Chart(
        name=f"{promise.request_class}.{promise.objective}",
        title=f"{promise.name.replace('_', ' ')}, {percent(promise.target)}",
        unit="budget",
        note=f"Exact: of the budget of the {period} before the end of each step.",
        lines=[Line(name="budget", label="left", values=[_rounded(each) for each in course])],
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
