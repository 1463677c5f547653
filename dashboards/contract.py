"""The dashboard of one deployment's contract: its lines are the promises of one revision.

The other dashboards draw what gateways enforce at the moment. This one is made of a document, and
says where gateways enforce another revision than its own.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.slo.alerting import thresholds
from controlplane.slo.burn_rate import percent
from controlplane.slo.prometheus.alerts_of_processes import GATEWAY_JOB
from controlplane.slo.prometheus.counting import sum_name
from controlplane.slo.promised import Promise
from dashboards.frame import Plan
from dashboards.latency_panels import HISTOGRAMS
from dashboards.panel import Kind, Panel, Row, Unit
from dashboards.query import Query, label_is, or_zero, quantile, series
from dataplane import names
from dataplane.contract_terms import ObjectiveSignal
from dataplane.latency import Boundary

_MAX_UID_LENGTH = 40
_DAY = 86_400
_OBJECTIVE = f"{{{{{names.LABEL_OBJECTIVE}}}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contracted:
    """One deployment under a contract."""

    promises: Sequence[Promise]
    """Of one revision; at least one."""
    boundary: Boundary
    is_observed_only: bool = False
    """No request of it passes through a gateway: what gateways measure would show nothing."""


def contract(of: Contracted) -> Plan:
    """The promises of one deployment, and what became of them."""
    promises, boundary = of.promises, of.boundary
    deployment, revision = promises[0].deployment, promises[0].contract_revision
    by_class: dict[str, list[Promise]] = {}
    for promise in promises:
        by_class.setdefault(promise.request_class, []).append(promise)
    return Plan(
        uid=_uid(deployment),
        title=f"Pilothouse / SLO of {deployment}",
        says=f"What contract {revision} promises for {deployment}, at the {boundary}.",
        is_of=label_is(names.LABEL_DEPLOYMENT, deployment),
        console_path=f"/deployments/{deployment}",
        rows=[
            _document(of),
            *(_class_row(name, made, of) for name, made in by_class.items()),
        ],
    )


def _uid(deployment: str) -> str:
    uid = f"pilothouse-slo-{deployment}"
    if len(uid) <= _MAX_UID_LENGTH:
        return uid
    digest = hashlib.blake2b(deployment.encode(), digest_size=8).hexdigest()
    return f"pilothouse-slo-{digest}"


def _document(of: Contracted) -> Row:
    enforced = [] if of.is_observed_only else [_other_revisions(of.promises[0])]
    return Row(
        title=f"Contract {of.promises[0].contract_revision}",
        height=7,
        panels=[_note(of.promises, of.boundary), *enforced],
    )


def _note(promises: Sequence[Promise], boundary: Boundary) -> Panel:
    lines = [
        f"Contract **{promises[0].contract_revision}**, measured at the {boundary}, over "
        f"{promises[0].period_seconds / _DAY:g} days.",
        "",
        "| class | objective | promised | at most |",
        "| --- | --- | --- | --- |",
        *(
            f"| {each.request_class} | {each.objective} | {percent(each.target)} | {_bound(each)} |"
            for each in promises
        ),
    ]
    return Panel(
        title="What is promised",
        says="Made of the contract's document by `pilothouse slo dashboards`.",
        kind=Kind.NOTE,
        width=16,
        text="\n".join(lines),
    )


def _other_revisions(promise: Promise) -> Panel:
    other = series(
        names.GATEWAY_CONTRACT,
        label_is(names.LABEL_DEPLOYMENT, promise.deployment),
        f'{names.LABEL_CONTRACT_REVISION}!="{promise.contract_revision}"',
    )
    return Panel(
        title="Gateways with another revision",
        says="Above 0 the lines here are not what requests are judged by: a change is "
        "under way, or this dashboard is to be made anew.",
        kind=Kind.FIGURE,
        bounds=(1.0,),
        queries=[Query(expr=or_zero(f"count({other})", GATEWAY_JOB), legend="gateways")],
        runbook="snapshot-not-followed",
    )


def _class_row(name: str, promises: Sequence[Promise], of: Contracted) -> Row:
    measured = [] if of.is_observed_only else promises
    latencies = [panel for each in measured if (panel := _latency(each, of.boundary)) is not None]
    return Row(
        title=f"{name}, {promises[0].contract_revision}",
        panels=[*latencies, _kept(promises), _burn(promises), _budget(promises)],
    )


def _latency(promise: Promise, boundary: Boundary) -> Panel | None:
    """The percentile that is promised, against its bound; None where no histogram tells it."""
    histogram = _histogram(promise, boundary)
    if histogram is None or promise.at_most_seconds is None:
        return None
    name, matchers = histogram
    return Panel(
        title=f"{promise.objective}: {percent(promise.target)} within {_bound(promise)}",
        says=f"The value that {percent(promise.target)} of the requests stay under. Dashed: what "
        f"{promise.contract_revision} allows. Points lead to single requests.",
        unit=Unit.SECONDS,
        bounds=(promise.at_most_seconds,),
        queries=[
            Query(
                expr=quantile(promise.target, name, *_of(promise), *matchers),
                legend=f"p{promise.target * 100:g}",
                has_exemplars=True,
            )
        ],
        runbook="budget-burn",
    )


def _histogram(promise: Promise, boundary: Boundary) -> tuple[str, tuple[str, ...]] | None:
    if promise.objective == ObjectiveSignal.MAX_ITL:
        return names.GATEWAY_LONGEST_GAP_SECONDS, ()
    found = HISTOGRAMS.get(ObjectiveSignal(promise.objective)) if _is_signal(promise) else None
    return None if found is None else (found, (label_is(names.LABEL_BOUNDARY, boundary.value),))


def _is_signal(promise: Promise) -> bool:
    return promise.objective != names.TOGETHER


def _kept(promises: Sequence[Promise]) -> Panel:
    of = _of(promises[0])
    good, judged = (series(sum_name(counted, 3600), *of) for counted in ("good", "judged"))
    return Panel(
        title="Share that kept each objective, last hour",
        says="Share of judged requests that kept each objective. Dashed: "
        + ", ".join(f"{each.objective} {percent(each.target)}" for each in promises)
        + f" ({promises[0].contract_revision}).",
        unit=Unit.SHARE,
        is_share_of_one=True,
        bounds=tuple(sorted({each.target for each in promises})),
        queries=[Query(expr=f"{good} / ({judged} > 0)", legend=_OBJECTIVE)],
    )


def _burn(promises: Sequence[Promise]) -> Panel:
    factors: Mapping[float, str] = {
        float(each.factor): each.grade.name
        for promise in promises
        for each in thresholds(promise.target, promise.period_seconds, promise.alerting)
        if each.why_left_out is None
    }
    told = ", ".join(f"{factors[factor]} {factor:g}" for factor in sorted(factors, reverse=True))
    return Panel(
        title="Burn rate of the last hour",
        says=f"Times the pace at which the budget lasts its period. Alerts: {told or 'none'}.",
        bounds=tuple(sorted(factors)),
        queries=[
            Query(
                expr=series(names.SLO_BURN_RATE.format("1h"), *_of(promises[0])), legend=_OBJECTIVE
            )
        ],
        runbook="budget-burn",
    )


def _budget(promises: Sequence[Promise]) -> Panel:
    return Panel(
        title="Error budget left",
        says=f"Of {promises[0].period_seconds / _DAY:g} days. Below 0 it is overspent.",
        unit=Unit.SHARE,
        is_signed=True,
        queries=[
            Query(expr=series(names.SLO_BUDGET_REMAINING, *_of(promises[0])), legend=_OBJECTIVE)
        ],
        runbook="budget-burn",
    )


def _of(promise: Promise) -> tuple[str, str]:
    return (
        label_is(names.LABEL_DEPLOYMENT, promise.deployment),
        label_is(names.LABEL_REQUEST_CLASS, promise.request_class),
    )


def _bound(promise: Promise) -> str:
    return "" if promise.at_most_seconds is None else f"{promise.at_most_seconds * 1000:g} ms"
