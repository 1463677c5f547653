"""What Prometheus is shown of a gateway."""

import dataclasses
from collections.abc import Callable
from typing import Any

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.decision import AdmissionDecision, AdmissionOutcome
from dataplane.gateway.metrics import GatewayMetrics
from dataplane.judgement import Judgement, judge
from dataplane.latency import Boundary
from dataplane.lifecycle import Disposition, Observability, RequestCounts
from dataplane.metering import Metered
from dataplane.outcome import Outcome
from dataplane.policy import EMPTY_SNAPSHOT, ContractPolicy, Snapshot
from dataplane.report import GatewayReport
from tests.dataplane.gateway.running_gateway import deployment
from tests.dataplane.golden_request import CLIENT, golden_record

_REPORT = GatewayReport(
    gateway_id="gateway-0-a",
    name="gateway-0",
    address="http://127.0.0.1:8701",
    started_at_unix_ns=0,
    reported_at_unix_ns=1_700_000_000_500_000_000,
    snapshot_version=7,
    snapshot_error=None,
    counts=RequestCounts(
        arrived=10, invalid=1, undecided=2, rejected=3, admitted=4, active=1, finished=3
    ),
    num_queued=5,
    oldest_queued_seconds=1.5,
    num_records_spooled=8,
    num_records_lost=9,
    replicas=(),
    num_records_refused=4,
    num_journal_unwritten=6,
    num_reports_refused=3,
    num_unauthenticated_by_code={"missing_api_key": 4},
    held={"slots": 2, "body_bytes": 0},
    remembered={"routing": 3},
)


class Gateway:
    """Answers for its report, and counts how often it was asked."""

    def __init__(self, report: GatewayReport = _REPORT) -> None:
        self.current = report
        self.num_reads = 0

    def report(self) -> GatewayReport:
        self.num_reads += 1
        return self.current


def _metrics(
    read_report: Callable[[], GatewayReport],
    num_spans_dropped: int,
    read_snapshot: Callable[[], Snapshot] = lambda: EMPTY_SNAPSHOT,
) -> GatewayMetrics:
    return GatewayMetrics(read_report, lambda: num_spans_dropped, read_snapshot)


def _scrape(metrics: GatewayMetrics) -> dict[str, float]:
    """Samples as `name{label=value,...}` -> value, label pairs in order of their names."""
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in samples
            samples[key] = sample.value
    return samples


_SCOPE = "deployment=chat,request_class=interactive"


def test_the_gauges_of_a_scrape_are_one_dated_snapshot_that_balances() -> None:
    gateway = Gateway()
    metrics = _metrics(gateway.report, 2)
    assert gateway.num_reads == 0, "nothing is read before the first scrape"
    samples = _scrape(metrics)
    assert gateway.num_reads == 1
    state = {
        name.split("state=")[1].rstrip("}"): int(value)
        for name, value in samples.items()
        if name.startswith("pilothouse_gateway_requests{")
    }
    RequestCounts(**state).check_integrity()
    assert RequestCounts(**state) == _REPORT.counts
    assert samples["pilothouse_gateway_requests_at_seconds"] == 1_700_000_000.5
    assert samples["pilothouse_gateway_queued_requests"] == 5
    assert samples["pilothouse_gateway_oldest_queued_seconds"] == 1.5
    assert samples["pilothouse_gateway_held{kind=slots}"] == 2
    assert samples["pilothouse_gateway_held{kind=body_bytes}"] == 0
    assert samples["pilothouse_gateway_remembered_entries{kind=routing}"] == 3
    assert samples["pilothouse_gateway_snapshot_version"] == 7
    assert samples["pilothouse_gateway_records_spooled"] == 8
    assert samples["pilothouse_gateway_records_lost_total"] == 9
    assert samples["pilothouse_gateway_records_refused_total"] == 4
    assert samples["pilothouse_gateway_journal_unwritten_total"] == 6
    assert samples["pilothouse_gateway_reports_refused_total"] == 3
    assert samples["pilothouse_gateway_unauthenticated_total{code=missing_api_key}"] == 4
    assert samples["pilothouse_gateway_spans_dropped_total"] == 2


def test_an_empty_queue_has_no_oldest_request_rather_than_one_of_age_zero() -> None:
    empty = dataclasses.replace(_REPORT, num_queued=0, oldest_queued_seconds=None)
    samples = _scrape(_metrics(Gateway(empty).report, 0))
    assert samples["pilothouse_gateway_queued_requests"] == 0
    assert "pilothouse_gateway_oldest_queued_seconds" not in samples


def _observed(**changes: Any) -> dict[str, float]:
    metrics = _metrics(Gateway().report, 0)
    metrics.observe(golden_record(**changes))
    return _scrape(metrics)


def test_input_cached_and_output_tokens_are_separate_counters() -> None:
    samples = _observed()
    assert samples[f"pilothouse_gateway_input_tokens_total{{{_SCOPE}}}"] == 12
    assert samples[f"pilothouse_gateway_cached_input_tokens_total{{{_SCOPE}}}"] == 4
    assert samples[f"pilothouse_gateway_output_tokens_total{{{_SCOPE}}}"] == 6


def test_what_was_measured_and_what_was_inferred_are_series_of_their_own() -> None:
    metrics = _metrics(Gateway().report, 0)
    for seconds, word, blocks in (
        (0.5, Observability.OBSERVED, 8.0),
        (0.25, Observability.OBSERVED, 4.0),
        (3.0, Observability.INFERRED, None),
    ):
        metered = Metered(
            engine_seconds=seconds, engine_observability=word, kv_block_seconds=blocks
        )
        metrics.observe(golden_record(metered=metered))
    metrics.observe(golden_record())
    samples = _scrape(metrics)
    engine = "pilothouse_gateway_engine_seconds_total"
    scope = "deployment=chat,observability={},request_class=interactive"
    assert samples[f"{engine}{{{scope.format('observed')}}}"] == 0.75
    assert samples[f"{engine}{{{scope.format('inferred')}}}"] == 3.0
    assert samples[f"pilothouse_gateway_kv_block_seconds_total{{{_SCOPE}}}"] == 12.0


def test_ends_are_counted_by_disposition() -> None:
    metrics = _metrics(Gateway().report, 0)
    for disposition in (Disposition.STOP, Disposition.STOP, Disposition.ERROR):
        metrics.observe(golden_record(disposition=disposition))
    samples = _scrape(metrics)
    ended = "pilothouse_gateway_requests_ended_total"
    scope = "deployment=chat,disposition={},request_class=interactive"
    assert samples[f"{ended}{{{scope.format('stop')}}}"] == 2
    assert samples[f"{ended}{{{scope.format('error')}}}"] == 1


def test_a_request_that_ended_before_it_had_a_deployment_is_counted_under_none() -> None:
    samples = _observed(deployment=None, request_class=None, disposition=Disposition.INVALID)
    label = "deployment=none,disposition=invalid,request_class=none"
    assert samples[f"pilothouse_gateway_requests_ended_total{{{label}}}"] == 1


def test_no_series_names_a_tenant() -> None:
    assert not [name for name in _observed(tenant="acme") if "acme" in name or "tenant" in name]


def test_each_latency_is_observed_in_seconds_at_the_boundary_of_the_server() -> None:
    samples = _observed()
    for latency, seconds in {"ttft": 0.044, "tpot": 0.053 / 5, "e2e": 0.097}.items():
        name = f"pilothouse_gateway_{latency}_seconds"
        label = f"boundary=server,{_SCOPE}"
        assert samples[f"{name}_count{{{label}}}"] == 1
        assert abs(samples[f"{name}_sum{{{label}}}"] - seconds) < 1e-9, latency
    assert samples[f"pilothouse_gateway_queue_time_seconds_sum{{{_SCOPE}}}"] == 0.018
    assert not [name for name in samples if "boundary=engine" in name]


def test_it_is_observed_at_the_boundary_of_the_contract_too() -> None:
    engine = _judged_at(Boundary.ENGINE)
    samples = _observed(judgement=engine)
    for latency, seconds in {"ttft": 0.043, "e2e": 0.043}.items():
        name = f"pilothouse_gateway_{latency}_seconds"
        assert samples[f"{name}_sum{{boundary=engine,{_SCOPE}}}"] == seconds
        assert samples[f"{name}_count{{boundary=server,{_SCOPE}}}"] == 1


def _judged_at(boundary: Boundary) -> Judgement:
    record = golden_record()
    terms = dataclasses.replace(_TERMS, boundary=boundary)
    return judge(record.latencies, Outcome.ANSWERED, terms, 1.0)


def test_the_longest_gap_of_an_answer_is_the_one_its_engine_left() -> None:
    latencies = golden_record().latencies
    stopped = dataclasses.replace(latencies.engine, max_gap=4.25)
    samples = _observed(latencies=dataclasses.replace(latencies, engine=stopped))
    name = "pilothouse_gateway_longest_gap_seconds"
    assert samples[f"{name}_sum{{{_SCOPE}}}"] == 4.25
    assert f"{name}_sum{{{_SCOPE}}}" not in _observed()  # of an answer in one piece


def test_what_a_client_reported_is_observed_at_its_own_boundary() -> None:
    samples = _observed(client=CLIENT, judgement=_judged_at(Boundary.CLIENT))
    label = f"boundary=client,{_SCOPE}"
    assert samples[f"pilothouse_gateway_ttft_seconds_sum{{{label}}}"] == 0.051


def test_a_latency_that_a_request_does_not_have_is_not_observed() -> None:
    samples = _observed(events=(), num_output_tokens=0)
    assert not [name for name in samples if "_seconds_count" in name]


def test_buckets_are_cumulative_around_the_value() -> None:
    samples = _observed()
    name = "pilothouse_gateway_ttft_seconds_bucket"
    assert (
        samples[f"{name}{{boundary=server,deployment=chat,le=0.025,request_class=interactive}}"]
        == 0
    )
    assert (
        samples[f"{name}{{boundary=server,deployment=chat,le=0.05,request_class=interactive}}"] == 1
    )


_TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=(
        Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.3),
        Objective(signal=ObjectiveSignal.TPOT, target=0.95, at_most_seconds=0.001),
        Objective(signal=ObjectiveSignal.MAX_ITL, target=0.95, at_most_seconds=0.1),
    ),
)


def test_each_judged_objective_counts_as_good_or_not_and_what_does_not_apply_not_at_all() -> None:
    judgement = judge(golden_record().latencies, Outcome.ANSWERED, _TERMS, 0.1)
    samples = _observed(judgement=judgement)
    good, judged = (f"pilothouse_gateway_objective_{what}_total" for what in ("good", "judged"))
    label = "deployment=chat,objective={},request_class=interactive"
    assert samples[f"{judged}{{{label.format('ttft')}}}"] == 1
    assert samples[f"{good}{{{label.format('ttft')}}}"] == 1
    assert samples[f"{judged}{{{label.format('tpot')}}}"] == 1
    assert samples[f"{good}{{{label.format('tpot')}}}"] == 0
    assert f"{judged}{{{label.format('max_itl')}}}" not in samples
    assert samples[f"pilothouse_gateway_requests_judged_total{{{_SCOPE}}}"] == 1
    assert samples[f"pilothouse_gateway_requests_in_contract_total{{{_SCOPE}}}"] == 0


def test_several_signals_in_one_request_are_judged_together() -> None:
    judgement = judge(golden_record().latencies, Outcome.ANSWERED, _TERMS, 0.1)
    samples = _observed(judgement=judgement)
    label = "deployment=chat,objective=together,request_class=interactive"
    assert samples[f"pilothouse_gateway_objective_judged_total{{{label}}}"] == 1
    assert samples[f"pilothouse_gateway_objective_good_total{{{label}}}"] == 0


def _promising(revision: str) -> Snapshot:
    contract = ContractPolicy(revision=revision, terms_by_class={"interactive": _TERMS})
    promised = dataclasses.replace(deployment("a", name="chat"), contract=contract)
    return Snapshot(version=1, deployments=(promised,))


def test_every_promise_is_there_at_zero_before_its_first_request() -> None:
    snapshots = [EMPTY_SNAPSHOT]
    metrics = _metrics(Gateway().report, 0, lambda: snapshots[-1])
    assert not [name for name in _scrape(metrics) if "objective" in name]
    snapshots.append(_promising("chat@7"))
    samples = _scrape(metrics)
    label = "deployment=chat,objective={},request_class=interactive"
    for objective in ("ttft", "tpot", "max_itl", "together"):
        for what in ("good", "judged"):
            name = f"pilothouse_gateway_objective_{what}_total{{{label.format(objective)}}}"
            assert samples[name] == 0
    assert samples[f"pilothouse_gateway_requests_judged_total{{{_SCOPE}}}"] == 0


def test_a_new_revision_goes_on_counting_where_the_old_one_was() -> None:
    snapshots = [_promising("chat@7")]
    metrics = _metrics(Gateway().report, 0, lambda: snapshots[-1])
    judgement = judge(golden_record().latencies, Outcome.ANSWERED, _TERMS, 0.1)
    metrics.observe(golden_record(judgement=judgement))
    assert _scrape(metrics)["pilothouse_gateway_contract{contract_revision=chat@7,deployment=chat}"]
    snapshots.append(_promising("chat@8"))
    samples = _scrape(metrics)
    revisions = [name for name in samples if name.startswith("pilothouse_gateway_contract{")]
    assert revisions == ["pilothouse_gateway_contract{contract_revision=chat@8,deployment=chat}"]
    label = "deployment=chat,objective=ttft,request_class=interactive"
    assert samples[f"pilothouse_gateway_objective_judged_total{{{label}}}"] == 1


def test_thresholds_are_those_of_the_revision_that_judges_now() -> None:
    snapshots = [_promising("chat@7")]
    metrics = _metrics(Gateway().report, 0, lambda: snapshots[-1])
    assert _thresholds(metrics) == {
        ("chat@7", "server", "ttft"): 0.3,
        ("chat@7", "server", "tpot"): 0.001,
        ("chat@7", "server", "max_itl"): 0.1,
    }
    snapshots.append(_promising("chat@8"))
    assert {revision for revision, _, _ in _thresholds(metrics)} == {"chat@8"}


def _thresholds(metrics: GatewayMetrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.render()[0].decode())
    return {
        tuple(sample.labels[key] for key in ("contract_revision", "boundary", "objective")): (
            sample.value
        )
        for family in families
        if family.name == "pilothouse_gateway_objective_at_most_seconds"
        for sample in family.samples
    }


def test_the_start_of_the_process_is_told_so_that_a_restart_can_be_known() -> None:
    assert _scrape(_metrics(Gateway().report, 0))["process_start_time_seconds"] > 1_700_000_000


def test_a_request_that_no_contract_covers_is_not_judged() -> None:
    assert not [name for name in _observed() if "judged" in name or "in_contract" in name]


def test_a_scraper_that_asks_for_openmetrics_gets_it() -> None:
    metrics = _metrics(Gateway().report, 0)
    body, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_a_bucket_names_the_trace_of_the_last_request_in_it() -> None:
    metrics = _metrics(Gateway().report, 0)
    record = golden_record()
    metrics.observe(record)
    later = dataclasses.replace(record, trace=dataclasses.replace(record.trace, trace_id="f" * 32))
    metrics.observe(later)
    body, _ = metrics.render("application/openmetrics-text; version=1.0.0")
    families = parse_openmetrics(body.decode())  # type: ignore[no-untyped-call]
    samples = [sample for family in families for sample in family.samples]
    exemplars = {s.name: s.exemplar for s in samples if s.exemplar is not None}
    for latency in ("queue_time", "ttft", "tpot", "e2e"):
        assert exemplars[f"pilothouse_gateway_{latency}_seconds_bucket"].labels == {
            "trace_id": "f" * 32
        }
    assert record.trace.trace_id not in body.decode()
    assert b"trace_id" not in metrics.render()[0]


def test_input_tokens_are_those_of_requests_whose_engine_work_began() -> None:
    metrics = _metrics(Gateway().report, 0)
    record = golden_record()
    metrics.observe(record)
    refused = dataclasses.replace(
        record, disposition=Disposition.REJECTED, events=record.events[:2], num_cached_tokens=None
    )
    metrics.observe(refused)
    assert refused.num_prompt_tokens == record.num_prompt_tokens
    assert _scrape(metrics)[f"pilothouse_gateway_input_tokens_total{{{_SCOPE}}}"] == 12


def test_refusals_are_counted_by_their_kind_and_lesser_answers_by_their_class() -> None:
    metrics = _metrics(Gateway().report, 0)
    rejected = AdmissionDecision(
        outcome=AdmissionOutcome.REJECTED, snapshot_version=1, policy_revision="p@1", kind="shed"
    )
    degraded = AdmissionDecision(
        outcome=AdmissionOutcome.DEGRADED, snapshot_version=1, policy_revision="p@1"
    )
    admitted = AdmissionDecision(
        outcome=AdmissionOutcome.ADMITTED, snapshot_version=1, policy_revision="p@1"
    )
    for decision in (rejected, rejected, degraded, admitted, None):
        metrics.observe(dataclasses.replace(golden_record(), decision=decision))

    samples = _scrape(metrics)
    shed = "deployment=chat,reason=shed,request_class=interactive"
    assert samples[f"pilothouse_gateway_requests_rejected_total{{{shed}}}"] == 2
    assert samples[f"pilothouse_gateway_requests_degraded_total{{{_SCOPE}}}"] == 1
