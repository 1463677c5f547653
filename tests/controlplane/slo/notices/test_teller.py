"""Telling goes on until it arrives, and nobody waits for it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from controlplane.hooks import Notifier, NotifyError
from controlplane.slo.alert import Alert
from controlplane.slo.alert_windows import Severity
from controlplane.slo.alerting_settings import NotifierPlan
from controlplane.slo.notices.notice import Notice, NoticeKind
from controlplane.slo.notices.teller import Situation, Teller
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.told_alerts import read_told
from tests.controlplane.slo.burning_alert import burning
from tests.databases import Databases

PLAN = NotifierPlan(name="oncall", kind="test", file=Path("/nowhere"))
START = 1_790_000_000 * 10**9


class Phone:
    """A notifier that fails as often as it is told to, and then takes everything."""

    def __init__(self, error: Exception | None = None, num_failures: int = 0) -> None:
        self.error, self.num_failures = error, num_failures
        self.told: list[Notice] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def notify(self, notice: Notice) -> str:
        assert self.may_answer.wait(30)
        if self.error is not None and self.num_failures:
            self.num_failures -= 1
            raise self.error
        self.told.append(notice)
        return "taken"


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.CONFIG)
    yield opened
    opened.close()


@contextmanager
def _telling(database: Database, phone: Notifier, now: int = START) -> Iterator[Teller]:
    teller = Teller(PLAN, phone, database, "http://console", lambda: now, 0.01)
    teller.start()
    yield teller
    teller.stop(30)


def _put(teller: Teller, *alerts: Alert) -> None:
    teller.put(Situation(firing=alerts, is_silenced=lambda _: False))


def _wait(phone: Phone, number: int) -> None:
    ends_at = time.monotonic() + 30
    while len(phone.told) < number:
        assert time.monotonic() < ends_at
        time.sleep(0.005)


def _until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.005)


@pytest.mark.parametrize("error", [NotifyError("HTTP 503"), RuntimeError("a plugin's own")])
def test_what_does_not_arrive_is_tried_again_until_it_does(
    database: Database, error: Exception
) -> None:
    phone = Phone(error, num_failures=3)
    with _telling(database, phone) as teller:
        _put(teller, burning())
        _wait(phone, 1)
    assert teller.state.num_failed == 3
    assert teller.state.num_told == 1
    assert teller.state.error is None
    assert [each.kind for each in phone.told] == [NoticeKind.FIRING]


def test_the_same_that_goes_on_is_not_told_again_nor_after_a_restart(database: Database) -> None:
    phone = Phone()
    with _telling(database, phone) as teller:
        for _ in range(3):
            _put(teller, burning())
            _wait(phone, 1)
    with _telling(database, phone, START + 60 * 10**9) as teller:
        _put(teller, burning())
        _put(teller, burning(), burning(deployment="batch"))
        _wait(phone, 2)
    assert [each.deployment for each in phone.told] == ["chat", "batch"]


def test_a_trouble_that_ended_while_nobody_evaluated_is_told_as_over(database: Database) -> None:
    phone = Phone()
    with _telling(database, phone) as teller:
        _put(teller, burning())
        _wait(phone, 1)
    with _telling(database, phone, START + 600 * 10**9) as teller:
        _put(teller)
        _wait(phone, 2)
    assert phone.told[-1].kind is NoticeKind.RESOLVED
    with database.reading() as session:
        assert read_told(session, "oncall") == {}


class RefusingPhone(Phone):
    """One that never takes what is told of `chat`."""

    def notify(self, notice: Notice) -> str:
        if notice.deployment == "chat":
            raise NotifyError("HTTP 400: too long")
        return super().notify(notice)


def test_what_one_deployment_cannot_be_told_holds_no_other_back(database: Database) -> None:
    phone = RefusingPhone()
    teller = Teller(PLAN, phone, database, "http://console", lambda: START, 3600)
    teller.start()
    try:
        _put(teller, burning())
        ends_at = time.monotonic() + 30
        while teller.state.error is None:
            assert time.monotonic() < ends_at
            time.sleep(0.005)
        _put(teller, burning(), burning(deployment="batch"))
        _wait(phone, 1)
        _put(teller, burning(), burning(deployment="batch"), burning(deployment="search"))
        _wait(phone, 2)
    finally:
        teller.stop(30)
    assert [each.deployment for each in phone.told] == ["batch", "search"]
    assert teller.state.error == "HTTP 400: too long"


class FussyPhone(Phone):
    """One that takes nothing of deployments called bad."""

    def notify(self, notice: Notice) -> str:
        if (notice.deployment or "").startswith("bad"):
            raise NotifyError("HTTP 400: too long")
        return super().notify(notice)


def test_however_many_cannot_be_told_the_others_are(database: Database) -> None:
    phone = FussyPhone()
    bad = [burning(deployment=f"bad-{number}") for number in range(20)]
    with _telling(database, phone) as teller:
        _put(teller, *bad, burning(Severity.TICKET, deployment="batch"))
        _wait(phone, 1)
    assert teller.state.error == "HTTP 400: too long"


class OneByOne(Phone):
    """One that answers when it is let, one message a time."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = threading.Semaphore(0)

    def notify(self, notice: Notice) -> str:
        assert self.turns.acquire(timeout=30)
        return super().notify(notice)


def test_a_page_waits_for_no_tickets_that_were_due_before(database: Database) -> None:
    phone = OneByOne()
    tickets = [burning(Severity.TICKET, deployment=f"batch-{number}") for number in range(20)]
    with _telling(database, phone) as teller:
        _put(teller, *tickets)
        phone.turns.release()
        _wait(phone, 1)
        _put(teller, *tickets[:10], burning())
        phone.turns.release(30)
        _wait(phone, 11)
    told = [each.deployment for each in phone.told]
    assert "chat" in told[:3]  # one message was under way
    assert len(told) <= 12  # and what ended before it was told is not told


class CutOff(Phone):
    """One that takes it, and of which no answer comes back."""

    def notify(self, notice: Notice) -> str:
        self.told.append(notice)
        raise NotifyError("no answer within 5 s")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_end_is_told_of_what_may_have_arrived(database: Database, is_restarted: bool) -> None:
    deaf, phone = CutOff(), Phone()
    with _telling(database, deaf) as teller:
        _put(teller, burning())
        _wait(deaf, 2)
        if not is_restarted:
            _put(teller)
            while deaf.told[-1].kind is not NoticeKind.RESOLVED:
                _wait(deaf, len(deaf.told) + 1)
    with _telling(database, phone) as teller:
        _put(teller)
        _wait(phone, 1)
    assert [each.kind for each in phone.told] == [NoticeKind.RESOLVED]


def test_what_a_database_did_not_take_is_kept_as_soon_as_it_does(database: Database) -> None:
    phone, is_full = Phone(), threading.Event()
    is_full.set()

    @event.listens_for(database.engine, "before_cursor_execute")
    def _refuse(_c: object, _u: object, statement: str, *_rest: object) -> None:
        if is_full.is_set() and "told_alerts" in statement and "SELECT" not in statement[:6]:
            raise OSError("the disk is full")

    with _telling(database, phone) as teller:
        _put(teller, burning(), burning(deployment="batch"))
        _wait(phone, 2)  # nobody waits for the disk
        _until(lambda: teller.state.error is not None)
        assert teller.state.error == "OSError: the disk is full"
        is_full.clear()
        _until(lambda: teller.state.error is None)
    with database.reading() as session:
        kept = read_told(session, "oncall")
    assert {group: told.at_unix_ns for group, told in kept.items()} == {
        "chat": START,
        "batch": START,
    }


def test_who_evaluates_does_not_wait_for_a_phone_that_hangs(database: Database) -> None:
    phone = Phone()
    phone.may_answer.clear()
    with _telling(database, phone) as teller:
        _put(teller, burning())
        for _ in range(1000):
            _put(teller, burning(), burning(deployment="batch"))
        assert phone.told == []
        phone.may_answer.set()
        _wait(phone, 2)
