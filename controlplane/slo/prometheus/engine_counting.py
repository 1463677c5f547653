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

from controlplane.slo.alert_windows import MINUTE
from controlplane.slo.burn_rate import shortest
from controlplane.slo.engine_histograms import EngineObjective
from controlplane.slo.prometheus.contract_ticket import ContractTicket
from controlplane.slo.prometheus.counting import SLOT_SECONDS, reading_before
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.of_promise import group_name, promise_labels, promise_selector
from controlplane.slo.prometheus.rules import RecordingRule, RuleGroup
from controlplane.slo.promised import Promise
from dataplane import names

_TARGET = "job, instance"
ENGINE_UNSEEN = "PilothouseEngineUnseen"


def engine_counting_groups(
    objectives: Sequence[EngineObjective], links: Links
) -> tuple[RuleGroup, ...]:
    """Of one deployment, with an alert for where there is nothing to count; none for none."""
    if not objectives:
        return ()
    readings = [rule for each in objectives for rule in _readings(each)]
    slots = [rule for each in objectives for rule in _slots(each.promise)]
    unseen = _unseen(objectives).rule(objectives[0].promise, links)
    return (
        RuleGroup(
            name=group_name(objectives[0].promise.deployment, "engine"),
            interval_seconds=SLOT_SECONDS,
            rules=(*readings, *slots, unseen),
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
            labels=promise_labels(objective.promise),
        )


def _unseen(objectives: Sequence[EngineObjective]) -> ContractTicket:
    promise = objectives[0].promise
    deployment = promise.deployment
    histograms = "|".join(sorted({each.histogram for each in objectives}))
    return ContractTicket(
        name=ENGINE_UNSEEN,
        expr=f'absent({{__name__=~"({histograms})_count",'
        f'{names.LABEL_DEPLOYMENT}="{deployment}"}})',
        for_seconds=5 * MINUTE,
        summary=f"No histogram of the engine of {deployment} is scraped",
        description=f"For five minutes there was no series with the label "
        f"deployment={deployment} to judge {promise.contract_revision} by: its engine is not "
        "scraped, exports other names, or its targets lack the label. That is no proof that "
        "all is well.",
        runbook="telemetry-missing",
    )


def _le(edge: float) -> str:
    """As exporters in Go and in Python write it: 1 and 1.0. Rules are read from YAML, and PromQL
    reads the backslash once more."""
    text = shortest(edge).replace(".", r"\\.")
    return text if "." in text else rf"{text}|{text}\\.0"


def _slots(promise: Promise) -> Iterator[RecordingRule]:
    selector, labels = promise_selector(promise), promise_labels(promise)
    count = f"{names.SLO_ENGINE_READING.format('judged')}{selector}"
    counted_before = reading_before(count)
    for counted in ("judged", "good"):
        now = f"{names.SLO_ENGINE_READING.format(counted)}{selector}"
        yield RecordingRule(
            record=names.SLO_SLOT.format(counted),
            expr=(
                f"sum by ({', '.join(labels)}) (\n"
                f"  ({now} - {reading_before(now)}) and ({count} >= {counted_before})\n"
                f"  or {now} and ({count} < {counted_before})\n"
                ")"
            ),
            labels=labels,
        )
