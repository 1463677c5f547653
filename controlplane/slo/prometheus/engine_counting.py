"""How Prometheus counts objectives by an engine's own histogram, where nothing passes a gateway.

The slots that come of it have the names of those that gateways make, so that sums, burn rates,
budgets and alerts are the same rules (`counting`, `burning`). The bucket at the threshold is *good*
and the histogram's count *judged*, of one scrape, so that the two are of the same requests.

    count, now and before     slot
    no less than before       now - before, of both
    less                      now, of both: another process, which counts from zero
    not read before           nothing: how long ago it counted is not known

An engine of several processes does not tell when it started, so a restart is told by the count
alone: one that has grown past the old count before anybody looks again is not seen.
The engine's series carry the label `deployment`, as targets of
`/api/v1/scrape-targets/observed` do.
"""

from collections.abc import Iterator, Sequence

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.burn_rate import shortest
from controlplane.slo.engine_histograms import EngineObjective
from controlplane.slo.prometheus.counting import KNOWN_FOR, SLOT_SECONDS
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import AlertRule, RecordingRule, RuleGroup
from controlplane.slo.promised import Promise
from dataplane import names

_TARGET = "job, instance"
UNSEEN = "PilothouseEngineUnseen"


def engine_counting_groups(
    objectives: Sequence[EngineObjective], links: Links
) -> tuple[RuleGroup, ...]:
    """Of one deployment, with an alert for where there is nothing to count; none for none."""
    if not objectives:
        return ()
    deployment = objectives[0].promise.deployment
    readings = [rule for each in objectives for rule in _readings(each)]
    slots = [rule for each in objectives for rule in _slots(each.promise)]
    return (
        RuleGroup(
            name=f"pilothouse-slo-{deployment}-engine",
            interval_seconds=SLOT_SECONDS,
            rules=(*readings, *slots, _unseen(objectives, links)),
        ),
    )


def _readings(objective: EngineObjective) -> Iterator[RecordingRule]:
    of = f'{names.LABEL_DEPLOYMENT}="{objective.promise.deployment}"'
    edge = _le(objective.edge)
    for counted, series in (
        ("judged", f"{objective.histogram}_count{{{of}}}"),
        ("good", f'{objective.histogram}_bucket{{{of},le=~"{edge}"}}'),
    ):
        yield RecordingRule(
            record=names.SLO_ENGINE_READING.format(counted),
            expr=f"sum by ({_TARGET}) ({series})",
            labels=_labels(objective.promise),
        )


def _unseen(objectives: Sequence[EngineObjective], links: Links) -> AlertRule:
    promise = objectives[0].promise
    deployment = promise.deployment
    histograms = "|".join(sorted({each.histogram for each in objectives}))
    team = {} if promise.alerting.team is None else {names.LABEL_TEAM: promise.alerting.team}
    return AlertRule(
        alert=UNSEEN,
        expr=f'absent({{__name__=~"({histograms})_count",'
        f'{names.LABEL_DEPLOYMENT}="{deployment}"}})',
        for_seconds=5 * MINUTE,
        labels={
            names.LABEL_SEVERITY: Severity.TICKET.value,
            names.LABEL_DEPLOYMENT: deployment,
            **team,
        },
        annotations={
            "summary": f"No histogram of the engine of {deployment} is scraped",
            "description": f"For five minutes there was no series with the label "
            f"deployment={deployment} to judge {promise.contract_revision} by: its engine is not "
            "scraped, exports other names, or its targets lack the label. That is no proof that "
            "all is well.",
            "runbook_url": links.runbook("telemetry-missing"),
            "dashboard_url": links.deployment(deployment),
            names.LABEL_CONTRACT_REVISION: promise.contract_revision,
        },
    )


def _le(edge: float) -> str:
    """As exporters in Go and in Python write it: 1 and 1.0. Rules are read from YAML, and PromQL
    reads the backslash once more."""
    text = shortest(edge).replace(".", r"\\.")
    return text if "." in text else rf"{text}|{text}\\.0"


def _slots(promise: Promise) -> Iterator[RecordingRule]:
    selector = "{" + ",".join(f'{key}="{value}"' for key, value in _labels(promise).items()) + "}"
    count = f"{names.SLO_ENGINE_READING.format('judged')}{selector}"
    counted_before = _before(count)
    for counted in ("judged", "good"):
        now = f"{names.SLO_ENGINE_READING.format(counted)}{selector}"
        yield RecordingRule(
            record=names.SLO_SLOT.format(counted),
            expr=(
                f"sum by ({', '.join(_labels(promise))}) (\n"
                f"  ({now} - {_before(now)}) and ({count} >= {counted_before})\n"
                f"  or {now} and ({count} < {counted_before})\n"
                ")"
            ),
            labels=_labels(promise),
        )


def _before(reading: str) -> str:
    return f"last_over_time({reading}[{KNOWN_FOR}] offset {SLOT_SECONDS}s)"


def _labels(promise: Promise) -> dict[str, str]:
    return {
        names.LABEL_DEPLOYMENT: promise.deployment,
        names.LABEL_REQUEST_CLASS: promise.request_class,
        names.LABEL_OBJECTIVE: promise.objective,
    }
