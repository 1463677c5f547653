"""From counts to an incident and to people, over real databases and a real webhook."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.slo.alert import AlertSource
from controlplane.slo.alert_book import AlertBook
from controlplane.slo.alert_windows import HOUR, MINUTE
from controlplane.slo.alerting_settings import AlertingSettings, NotifierPlan
from controlplane.slo.alerting_worker import AlertingWorker
from controlplane.slo.reading import StandingReader
from controlplane.slo.silences import SilenceKind, SilenceScope
from controlplane.store.connection import DatabaseKind
from controlplane.store.counts import add_counts
from controlplane.store.incident import IncidentState
from controlplane.store.incident_lists import list_current
from controlplane.store.request_rows import CountKey
from controlplane.store.revisions import apply_documents
from controlplane.store.series import MinuteSample, add_samples
from controlplane.store.silences import NewSilence, add_silence
from tests.controlplane.config_documents import (
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    documents,
)
from tests.controlplane.slo.notices.webhook_server import SECRET, WebhookServer, serve_webhook
from tests.databases import Databases

NS = 10**9
CHAT = """\
kind: Deployment
metadata: {name: chat}
spec: {model: smollm2, engine: attached, policy: chat, replicas: 0, contract: chat}
"""


class Installation:
    """Databases, a clock that stands until it is set, and a webhook."""

    def __init__(self, databases: Databases, folder: Path, hook: WebhookServer) -> None:
        self.config_db = databases.open(DatabaseKind.CONFIG)
        self.request_db = databases.open(DatabaseKind.REQUESTS)
        self.now = 1_790_000_000 // HOUR * HOUR + 20 * MINUTE
        self.observed = ObservedState(self.clock)
        self.hook = hook
        self.file = folder / "hook.url"
        self.file.write_text(hook.url)
        with self.config_db.session() as session:
            texts = documents(MODEL, ENGINE, DESIGN_CONTRACT, DESIGN_POLICY, CHAT)
            apply_documents(session, texts, author="ann", reason="", clock=self.clock)

    def clock(self) -> int:
        return self.now * NS

    def judge(self, bad: int, total: int) -> None:
        """In the minute that it is."""
        names = (self.now // MINUTE * MINUTE, "chat", "interactive", "acme", "chat@1")
        with self.request_db.session() as session:
            for word, value in (("good", total - bad), ("total", total)):
                add_counts(session, {CountKey(*names, f"objective.availability.{word}"): value})

    def hear(self) -> None:
        with self.request_db.session() as session:
            sample = MinuteSample(
                minute_unix=self.now // MINUTE * MINUTE,
                deployment="chat",
                num_gateways=1,
                active=0,
                queued=0,
            )
            add_samples(session, [sample])

    @contextmanager
    def alerting(self) -> Iterator[AlertingWorker]:
        plan = NotifierPlan(name="oncall", kind="webhook", file=self.file)
        worker = AlertingWorker(
            self.config_db,
            self.request_db,
            self.observed,
            AlertingSettings(evaluate_seconds=0.01, notifiers=(plan,)),
            self.clock,
        )
        worker.start(StandingReader())
        try:
            yield worker
        finally:
            worker.stop()

    def firing(self) -> set[str | None]:
        """Grades, as incidents have them."""
        book = AlertBook(self.config_db)
        return {each.subject.grade for each in book.firing(AlertSource.CONTROL_PLANE)}

    def num_open(self) -> int:
        """Incidents of the deployment that are not over."""
        with self.config_db.reading() as session:
            found = list_current(session, "chat", self.clock() - HOUR * NS)
        return sum(each.state is not IncidentState.RESOLVED for each, _ in found)


@pytest.fixture
def installation(databases: Databases, tmp_path: Path) -> Iterator[Installation]:
    with serve_webhook() as hook:
        made = Installation(databases, tmp_path, hook)
        yield made
        made.config_db.close()
        made.request_db.close()


def _until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def _passes(worker: AlertingWorker, number: int = 2) -> None:
    """As many that began after this call, and one that may have been under way."""
    done = worker.num_passes + number
    _until(lambda: worker.num_passes >= done)
    assert worker.error is None


def _listen(installation: Installation, worker: AlertingWorker, num_minutes: int) -> None:
    for _ in range(num_minutes):
        installation.now += MINUTE
        _passes(worker)


def test_a_burn_pages_once_opens_an_incident_and_is_told_as_over(
    installation: Installation,
) -> None:
    installation.hear()
    installation.judge(bad=500, total=1000)
    with installation.alerting() as worker:
        (told,) = installation.hook.wait_for(1)
        _passes(worker)
    assert told["kind"] == "firing"
    assert {each["grade"] for each in told["firing"]} == {"page_quick", "page_slow"}
    assert "page_quick" in installation.firing()
    with installation.alerting() as worker:  # a restart tells nothing anew
        _passes(worker)
        assert len(installation.hook.heard) == 1
        installation.now += 8 * HOUR
        installation.hear()
        installation.judge(bad=0, total=10_000_000)
        over = installation.hook.wait_for(2)[1]
        _passes(worker)
    assert over["kind"] == "resolved"
    assert {each["grade"] for each in over["ended"]} == {"page_quick", "page_slow"}
    assert installation.firing() == set()


def test_a_silenced_burn_opens_its_incident_and_tells_nobody(installation: Installation) -> None:
    wanted = NewSilence(
        kind=SilenceKind.SILENCE,
        scope=SilenceScope(deployment="chat"),
        reason="known",
        seconds=HOUR,
    )
    with installation.config_db.session() as session:
        add_silence(session, wanted, actor="ann", clock=installation.clock)
    installation.hear()
    installation.judge(bad=500, total=1000)
    with installation.alerting() as worker:
        _until(lambda: "page_quick" in installation.firing())
        _passes(worker)
        assert installation.hook.heard == []


def _ready(deployment: str, now: int) -> ObservedReplica:
    return ObservedReplica(
        replica_id=f"{deployment}-1",
        deployment=deployment,
        engine="simulator",
        model_revision="smollm2@1",
        state="ready",
        reason="",
        stage=None,
        pid=None,
        address=None,
        metrics_address=None,
        start_stages={},
        probed_at_unix_ns=None,
        observed_at_unix_ns=now * NS,
    )


def test_a_deployment_that_no_gateway_tells_of_is_an_alert_once_somebody_listened_for_long(
    installation: Installation,
) -> None:
    installation.judge(bad=500, total=1000)
    installation.now += 10 * MINUTE  # and nothing was heard since
    installation.observed.set_replicas([_ready("chat", installation.now)])
    with installation.alerting() as worker:
        _passes(worker)
        assert installation.firing() == set()
        _listen(installation, worker, 7)
        (told,) = installation.hook.wait_for(1)
        _passes(worker)
    (alert,) = told["firing"]
    assert alert["name"] == "PilothouseDeploymentUnseen"
    assert alert["deployment"] == "chat"
    assert installation.firing() == {None}


def test_a_crash_loop_opens_an_incident_and_a_restart_does_not_end_it(
    installation: Installation,
) -> None:
    installation.observed.set_failures({"chat": 3}, {"chat": "next start in 2 s"})
    with installation.alerting() as worker:
        (told,) = installation.hook.wait_for(1)
        _passes(worker)
    (alert,) = told["firing"]
    assert (alert["name"], alert["deployment"]) == ("PilothouseReplicaCrashLoop", "chat")
    installation.now += MINUTE
    installation.observed.set_failures({}, {})  # a new operator begins to count
    with installation.alerting() as worker:
        _passes(worker)
        assert installation.num_open() == 1
        _listen(installation, worker, 7)
        _until(lambda: installation.num_open() == 0)


def test_a_burn_from_before_a_restart_does_not_end_because_nobody_listened(
    installation: Installation,
) -> None:
    installation.hear()
    installation.judge(bad=500, total=1000)
    with installation.alerting() as worker:
        _until(lambda: "page_quick" in installation.firing())
        _passes(worker)
    installation.now += 20 * MINUTE  # the control plane was away, and so are the counts
    with installation.alerting() as worker:
        _passes(worker)
        assert "page_quick" in installation.firing()
        _listen(installation, worker, 7)
        _until(lambda: installation.firing() == set())


def _listen_to_gateways(installation: Installation, worker: AlertingWorker) -> None:
    for _ in range(7):
        installation.hear()
        installation.judge(bad=500, total=1000)
        _listen(installation, worker, 1)


@pytest.mark.parametrize("away", [5 * MINUTE, 2 * HOUR, -2 * HOUR])
def test_a_machine_that_stood_still_or_set_its_clock_saw_nobody_vanish(
    installation: Installation, away: int
) -> None:
    installation.judge(bad=500, total=1000)
    installation.observed.set_replicas([_ready("chat", installation.now)])
    with installation.alerting() as worker:
        _until(lambda: "page_quick" in installation.firing())
        _listen_to_gateways(installation, worker)
        installation.now += away
        _passes(worker)
        assert "page_quick" in installation.firing()
        assert None not in installation.firing()
        _listen(installation, worker, 7)  # nobody tells of it here either: now they did vanish
        _until(lambda: installation.firing() == {None})
    names = [each["name"] for told in installation.hook.heard for each in told["firing"]]
    assert names[0] != "PilothouseDeploymentUnseen"


def test_an_alert_that_began_before_the_clock_was_set_back_ends(
    installation: Installation,
) -> None:
    installation.hear()
    installation.judge(bad=500, total=1000)
    with installation.alerting() as worker:
        _until(lambda: "page_quick" in installation.firing())
        installation.now -= 2 * HOUR
        installation.hear()
        installation.judge(bad=0, total=10_000_000)
        _until(lambda: installation.firing() == set())
        installation.now += 2 * MINUTE
        installation.judge(bad=5_000_000, total=5_000_000)
        _until(lambda: "page_quick" in installation.firing())
        _passes(worker)


def test_a_database_that_fails_is_shown_and_the_next_pass_goes_on(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(StandingReader, "read", broken)
        with installation.alerting() as worker:
            _until(lambda: worker.num_failed_passes > 1)
            assert worker.error == "OSError: the disk is gone"
            patched.undo()
            _until(lambda: worker.error is None)


def test_what_is_logged_of_a_webhook_that_fails_holds_no_address(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    installation.hook.status = 404
    installation.hear()
    installation.judge(bad=500, total=1000)
    with installation.alerting() as worker:
        installation.hook.wait_for(1)
        _until(lambda: worker.tellers[0].state.error is not None)
        assert worker.tellers[0].state.error == "HTTP 404: ok"
    assert SECRET not in caplog.text
