"""Charts over time: exact where they can be, and a gap where nobody knows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from controlplane.api.charts import Line
from controlplane.api.gateway_samples import GatewaySamples, store_samples
from controlplane.api.series import Series, SeriesError, read_charts, seconds_of, span_of
from controlplane.process_history import ProcessEvent, ProcessHistory
from controlplane.specs.documents import load_documents
from controlplane.store.catalog import StoreCatalog
from controlplane.store.database import Database, DatabaseKind
from controlplane.store.overrides import NewOverride, add_override, end_override
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.revisions import apply_documents
from controlplane.store.series import MinuteSample, add_samples
from dataplane.lifecycle import RequestCounts
from dataplane.policy import OverrideKind
from dataplane.record import RequestRecord
from dataplane.report import GatewayReport, ReplicaReport
from ops.sample_requests import Sample, answered, invalid, rejected
from tests.controlplane.config_documents import DESIGN_POLICY, SERVICE
from tests.controlplane.quiet_gateway import quiet_report
from tests.databases import Databases

MINUTE = 60 * 10**9
NOW_NS = 1_790_000_040 * 10**9


@pytest.fixture
def config_db(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.CONFIG)
    yield made
    made.close()


@pytest.fixture
def request_db(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.REQUESTS)
    yield made
    made.close()


def sample(sequence: int, minutes_ago: float, tenant: str = "acme") -> Sample:
    at = NOW_NS - int(minutes_ago * MINUTE)
    return Sample(sequence=sequence, arrived_at_unix_ns=at, tenant=tenant)


def take(database: Database, *records: RequestRecord) -> None:
    with database.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=0, records=records)
        store_batch(session, batch, Random(1), ReservoirSizes())


def hear(database: Database, minutes_ago: int, active: float = 0.0) -> None:
    minute = (NOW_NS - minutes_ago * MINUTE) // 10**9 // 60 * 60
    with database.session() as session:
        add_samples(
            session,
            [
                MinuteSample(
                    minute_unix=minute, deployment="", num_gateways=1, active=active, queued=0.5
                )
            ],
        )


def line(series: Series, chart: str, name: str) -> Line:
    [found] = [each for each in series.charts if each.name == chart]
    return next(each for each in found.lines if each.name == name)


def test_a_minute_without_a_gateway_is_a_gap_and_one_without_traffic_is_zero(
    config_db: Database, request_db: Database
) -> None:
    take(request_db, *(answered(sample(n, 2.5)) for n in range(30)))
    hear(request_db, 3)
    hear(request_db, 2)
    offered = line(read_charts(config_db, request_db, "15m", NOW_NS), "requests", "offered")
    assert offered.values[-4:] == [None, 0.5, 0.0, None]


def test_attainment_leaves_out_what_callers_got_wrong(
    config_db: Database, request_db: Database
) -> None:
    take(request_db, answered(sample(1, 2)), rejected(sample(2, 2)), invalid(sample(3, 2)))
    series = read_charts(config_db, request_db, "15m", NOW_NS)
    assert [v for v in line(series, "attainment", "attainment").values if v is not None] == [0.5]


def test_ttft_of_a_longer_range_is_taken_over_all_its_requests(
    config_db: Database, request_db: Database
) -> None:
    take(request_db, *(answered(sample(n, 30 + n / 100)) for n in range(99)))
    series = read_charts(config_db, request_db, "6h", NOW_NS)
    [p95] = [v for v in line(series, "ttft", "ttft_p95").values if v is not None]
    assert 0.043 / 1.19 < p95 < 0.060 * 1.19


@pytest.mark.parametrize(("range_", "step_seconds"), [("1d", 3600), ("7d", 7200), ("6h", 300)])
def test_a_bucket_under_way_is_a_rate_over_the_minutes_that_have_passed(
    config_db: Database, request_db: Database, range_: str, step_seconds: int
) -> None:
    # 14:14:20: 14 minutes into the hour, 4 into the five, and 20 s that are not over.
    now_ns = NOW_NS + 20 * 10**9
    passed = NOW_NS // 10**9 % step_seconds
    take(request_db, *(answered(sample(n, 1)) for n in range(24)))
    take(request_db, answered(sample(24, -0.1)))  # in the minute under way
    series = read_charts(config_db, request_db, range_, now_ns)
    assert series.end_unix == NOW_NS // 10**9
    assert series.last_step_seconds == passed < step_seconds
    assert series.times_unix[-1] == series.end_unix - passed
    assert series.times_unix[0] == series.start_unix
    assert series.end_unix - series.start_unix >= seconds_of(range_), "nothing is cut for it"
    offered = line(series, "requests", "offered").values
    assert len(offered) == len(series.times_unix)
    assert offered[-1] == pytest.approx(24 / passed, rel=1e-4)


def test_a_bucket_of_a_whole_hour_and_a_part_of_one_has_both(
    config_db: Database, request_db: Database
) -> None:
    into = NOW_NS // 10**9 % 7200
    now_ns = NOW_NS + (7200 - into - 600) * 10**9  # ten minutes before two hours are over
    take(request_db, answered(sample(0, into / 60)))
    take(request_db, answered(replace(sample(1, 0), arrived_at_unix_ns=now_ns - MINUTE)))
    offered = line(read_charts(config_db, request_db, "7d", now_ns), "requests", "offered")
    assert offered.values[-1] == pytest.approx(2 / 6600, rel=1e-4)


def test_a_range_that_ends_with_a_whole_bucket_has_no_other(
    config_db: Database, request_db: Database
) -> None:
    now_ns = NOW_NS // (3600 * 10**9) * 3600 * 10**9
    series = read_charts(config_db, request_db, "1d", now_ns)
    assert (len(series.times_unix), series.last_step_seconds) == (24, 3600)


def test_a_tenant_sees_its_own_traffic_and_nobody_s_gauges(
    config_db: Database, request_db: Database
) -> None:
    take(request_db, answered(sample(1, 2)), answered(sample(2, 2, tenant="globex")))
    hear(request_db, 2, active=3.0)
    whole = read_charts(config_db, request_db, "15m", NOW_NS)
    own = read_charts(config_db, request_db, "15m", NOW_NS, tenant="globex")
    assert line(whole, "requests", "offered").values[-2] == pytest.approx(2 / 60, rel=1e-4)
    assert line(own, "requests", "offered").values[-2] == pytest.approx(1 / 60, rel=1e-4)
    assert line(whole, "load", "active").values[-2] == 3.0
    assert set(line(own, "load", "active").values) == {None}
    assert own.marks == []


def test_a_change_of_config_is_a_mark_that_says_what_who_and_why(
    config_db: Database, request_db: Database
) -> None:
    for minutes_ago, texts in ((50, SERVICE), (5, (DESIGN_POLICY.replace("64", "32"),))):
        with config_db.session() as session:
            loaded = load_documents(
                [(f"{n}.yaml", text) for n, text in enumerate(texts)], StoreCatalog(session)
            )
            apply_documents(
                session,
                loaded.documents,
                author="ann",
                reason="shorter queue",
                clock=lambda ago=minutes_ago: NOW_NS - ago * MINUTE,  # type: ignore[misc]
            )
    [mark] = read_charts(config_db, request_db, "15m", NOW_NS).marks
    assert mark.text == "chat: policy chat@1 → chat@2 by ann: shorter queue"
    first, _ = read_charts(config_db, request_db, "1h", NOW_NS, "chat").marks
    assert "first deployed" in first.text
    assert read_charts(config_db, request_db, "1h", NOW_NS, "nobody").marks == []


def test_an_override_is_a_mark_where_it_begins_and_where_it_ends(
    config_db: Database, request_db: Database
) -> None:
    with config_db.session() as session:
        loaded = load_documents(
            [(f"{n}.yaml", text) for n, text in enumerate(SERVICE)], StoreCatalog(session)
        )
        apply_documents(
            session, loaded.documents, author="ann", reason="", clock=lambda: NOW_NS - 500 * MINUTE
        )
        for minutes_ago, seconds in ((50, 600), (20, 7200)):
            wanted = NewOverride(
                kind=OverrideKind.BYPASS, deployment="chat", reason="a storm", seconds=seconds
            )
            last = add_override(
                session,
                wanted,
                actor="ben",
                clock=lambda ago=minutes_ago: NOW_NS - ago * MINUTE,  # type: ignore[misc]
            )
        end_override(
            session, last.override_id, actor="ann", reason="it passed",
            clock=lambda: NOW_NS - 2 * MINUTE,
        )  # fmt: skip

    marks = read_charts(config_db, request_db, "1h", NOW_NS, "chat").marks
    effect = "chat: override, "
    assert [mark.kind for mark in marks] == ["override"] * 4
    assert all(mark.text.startswith(effect) for mark in marks)
    begun, at_its_time, begun_again, ended = (mark.text for mark in marks)
    assert begun.endswith(", by ben: a storm")
    assert begun_again == begun
    assert at_its_time.endswith(", ended at its time")
    assert ended.endswith(", ended by ann: it passed")
    assert len(read_charts(config_db, request_db, "15m", NOW_NS, "chat").marks) == 1
    assert read_charts(config_db, request_db, "1h", NOW_NS, "other").marks == []


def test_a_gateway_that_failed_is_a_mark_of_every_deployment(
    config_db: Database, request_db: Database, tmp_path: Path
) -> None:
    history = ProcessHistory(tmp_path)
    for minutes_ago, what in ((400, "failed"), (5, "failed"), (4, "started")):
        history.note(
            ProcessEvent(
                at_unix_ns=NOW_NS - minutes_ago * MINUTE,
                name="gateway-0",
                role="gateway",
                what=what,
                reason="it was ended by SIGKILL" if what == "failed" else "again",
            )
        )
    for deployment in (None, "chat"):
        series = read_charts(config_db, request_db, "1h", NOW_NS, deployment, processes=history)
        assert [(mark.kind, mark.text) for mark in series.marks] == [
            ("failure", "gateway-0 failed: it was ended by SIGKILL"),
            ("process", "gateway-0 starts: again"),
        ]
    assert read_charts(config_db, request_db, "1h", NOW_NS, None, "acme", history).marks == []


def test_a_range_nobody_offers_lists_those_there_are() -> None:
    with pytest.raises(SeriesError, match="15m, 1h, 6h, 1d, 7d"):
        span_of("1y", NOW_NS)


def report(
    name: str, active: int, queued: dict[str, int] | None, process: int = 1
) -> GatewayReport:
    return quiet_report(
        name,
        gateway_id=f"{name}-{process}",
        counts=RequestCounts(
            arrived=9, invalid=0, undecided=0, rejected=0, admitted=9, active=active, finished=0
        ),
        num_queued=2,
        replicas=(ReplicaReport(replica_id="chat-1", is_connected=True, num_outstanding=3),),
        num_queued_by_deployment=queued,
    )


def test_a_minute_of_reports_becomes_one_mean_and_gateways_add_up(
    config_db: Database, request_db: Database
) -> None:
    samples, start = GatewaySamples(), NOW_NS - 2 * MINUTE
    replicas = {"chat-1": "chat"}
    for second, active in enumerate((4, 6)):
        assert not samples.note(report("a", active, {"chat": 1}), replicas, start + second * 10**9)
    assert not samples.note(report("b", 10, {"chat": 1}), replicas, start + 3 * 10**9)
    over = samples.note(report("a", 99, {"chat": 1}), replicas, start + MINUTE)
    store_samples(request_db, over)
    whole = read_charts(config_db, request_db, "15m", NOW_NS)
    assert line(whole, "load", "active").values[-2] == 15.0
    chat = read_charts(config_db, request_db, "15m", NOW_NS, "chat")
    assert line(chat, "load", "active").values[-2] == 8.0
    assert line(chat, "load", "queued").values[-2] == 2.0


def active_over(samples: GatewaySamples, start: int) -> tuple[int, float]:
    """Of the minute that began at `start`: gateways, and what was active in all of them."""
    over = samples.note(report("a", 0, {}), {}, start + MINUTE)
    [whole] = [each for each in over if each.deployment == ""]
    return whole.num_gateways, whole.active


def test_two_processes_of_one_gateway_add_up_while_one_hands_over_to_the_other() -> None:
    samples, start = GatewaySamples(), NOW_NS - 2 * MINUTE
    for second in range(60):
        samples.note(report("a", 30, {}, process=1), {}, start + second * 10**9)
        samples.note(report("a", 10, {}, process=2), {}, start + second * 10**9)
    assert active_over(samples, start) == (1, 40.0)


def test_a_process_that_took_anothers_place_shares_the_minute_with_it() -> None:
    samples, start = GatewaySamples(), NOW_NS - 2 * MINUTE
    for second in range(60):
        process, active = (1, 30) if second < 30 else (2, 10)
        samples.note(report("a", active, {}, process=process), {}, start + second * 10**9)
    num_gateways, mean = active_over(samples, start)
    assert num_gateways == 1
    assert mean == pytest.approx(20.0)


def test_a_gateway_that_does_not_tell_its_queues_leaves_them_unknown(
    config_db: Database, request_db: Database
) -> None:
    samples = GatewaySamples()
    samples.note(report("a", 4, None), {"chat-1": "chat"}, NOW_NS - 2 * MINUTE)
    store_samples(request_db, samples.note(report("a", 4, None), {}, NOW_NS - MINUTE))
    chat = read_charts(config_db, request_db, "15m", NOW_NS, "chat")
    assert line(chat, "load", "active").values[-2] == 3.0
    assert set(line(chat, "load", "queued").values) == {None}
