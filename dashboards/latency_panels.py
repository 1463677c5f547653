"""Percentiles of a latency, with the line that each objective draws."""

from dashboards.panel import Panel, Unit
from dashboards.query import (
    AT_BOUNDARY,
    OF_CLASS,
    OF_DEPLOYMENT,
    Query,
    label_is,
    quantile,
    series,
)
from dataplane import names
from dataplane.contract_terms import ObjectiveSignal

SHARES = (0.5, 0.95, 0.99)
HISTOGRAMS = {
    ObjectiveSignal.TTFT: names.GATEWAY_TTFT_SECONDS,
    ObjectiveSignal.TPOT: names.GATEWAY_TPOT_SECONDS,
    ObjectiveSignal.E2E: names.GATEWAY_E2E_SECONDS,
}
"""Of signals that are observed at every boundary."""
_CLASS = names.LABEL_REQUEST_CLASS


def latency_panel(signal: ObjectiveSignal, title: str, says: str, runbook: str) -> Panel:
    """Of one deployment, at the chosen boundary, by class."""
    line = series(
        names.GATEWAY_OBJECTIVE_AT_MOST_SECONDS,
        OF_DEPLOYMENT,
        OF_CLASS,
        AT_BOUNDARY,
        label_is(names.LABEL_OBJECTIVE, signal.value),
    )
    promise = Query(
        expr=f"max by ({_CLASS}, {names.LABEL_CONTRACT_REVISION}) ({line})",
        legend=f"{{{{{_CLASS}}}}} at most, {{{{{names.LABEL_CONTRACT_REVISION}}}}}",
        is_promise=True,
    )
    return Panel(
        title=title,
        says=f"{says} Dashed: what the contract in force allows. Points lead to single requests.",
        queries=[*percentiles(HISTOGRAMS[signal], OF_DEPLOYMENT, OF_CLASS, AT_BOUNDARY), promise],
        unit=Unit.SECONDS,
        runbook=runbook,
    )


def percentiles(
    histogram: str, *matchers: str, by: tuple[str, ...] = (_CLASS,)
) -> tuple[Query, ...]:
    """p50, p95 and p99; the last with exemplars, since the slow ones are looked for."""
    of = " ".join(f"{{{{{label}}}}}" for label in by)
    return tuple(
        Query(
            expr=quantile(share, histogram, *matchers, by=by),
            legend=f"{of} p{share * 100:g}".strip(),
            has_exemplars=share == SHARES[-1],
        )
        for share in SHARES
    )
