"""Requests of both arms: those of the step alone, and of too many evenly some; each read once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from sqlalchemy import delete, update

from controlplane.rollouts.analysis.measures import MEASURES
from controlplane.rollouts.analysis.tally import Tally
from controlplane.store import arm_book, arm_requests
from controlplane.store.arm_book import ArmBook
from controlplane.store.arm_requests import StepScope, read_arm_requests, read_marks
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.request_tables import RequestRow
from dataplane.arm import Arm
from dataplane.record import RequestRecord, RolloutPlace
from ops.sample_requests import CHAT_TERMS, Sample, answered, failed
from tests.databases import Databases

NS = 10**9
_FIRST = 2**62
"""As large as a record's number may be: one that is multiplied leaves what databases count in."""
SCOPE = StepScope(deployment="chat", rollout=3, since_unix_ns=1040 * NS)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def record(n: int) -> RequestRecord:
    """One a second; every tenth is the candidate's and fails. Those before the twentieth are of
    another rollout."""
    arm = Arm.CANDIDATE if n % 10 == 0 else Arm.STABLE
    tell = failed if arm is Arm.CANDIDATE else answered
    sample = Sample(sequence=_FIRST + n, arrived_at_unix_ns=(1000 + n) * NS, num_output_tokens=40)
    place = RolloutPlace(number=3 if n >= 20 else 2, arm=arm)
    return replace(tell(sample), rollout=place, deployment="chat")


def store(database: Database, numbers: Sequence[int]) -> None:
    batch = RecordBatch(gateway_id="g", num_lost=0, records=tuple(record(n) for n in numbers))
    with database.session() as session:
        store_batch(session, batch, Random(1), ReservoirSizes())


def test_of_too_many_some_of_all_times_are_read_and_each_objective_is_judged(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_requests, "MOST_REQUESTS", 50)
    store(database, range(300))
    with database.reading() as session:
        marks = read_marks(session, SCOPE)
        found = read_arm_requests(session, SCOPE, marks, SCOPE.since_unix_ns, lambda *_: CHAT_TERMS)
    assert found.keys() == marks.keys()
    candidates = [request for arm, request in found.values() if arm is Arm.CANDIDATE]
    stable = [request for arm, request in found.values() if arm is Arm.STABLE]
    assert len(candidates) == 26  # all of them: these are few
    assert 20 <= len(stable) <= 40  # of 234, one in eight
    assert all(each.objectives["availability"] for each in stable)
    assert not any(each.objectives["availability"] for each in candidates)


class Reader:
    """Looks at the step, by a book that stays or by a new one."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self._database = database
        self._book = ArmBook(lambda *_: CHAT_TERMS)
        self.num_read = 0

        def counting(*args: object) -> object:
            found = read_arm_requests(*args)  # type: ignore[arg-type]
            self.num_read += len(found)
            return found

        monkeypatch.setattr(arm_book, "read_arm_requests", counting)

    def look(self, book: ArmBook | None = None) -> Tally:
        with self._database.reading() as session:
            return (book or self._book).tally(session, SCOPE, MEASURES)

    def check(self, num_read: int) -> None:
        """So many were read for what one who starts now finds as well."""
        self.num_read = 0
        found, read = self.look(), self.num_read
        fresh = self.look(ArmBook(lambda *_: CHAT_TERMS))
        assert (read, found.kept) == (num_read, fresh.kept)
        for name, strata in fresh.strata.items():
            assert found.strata[name].keys() == strata.keys()
            for alike, stratum in strata.items():
                of_arms = found.strata[name][alike]
                assert of_arms.stable.num == stratum.stable.num
                assert of_arms.stable.mean == pytest.approx(stratum.stable.mean)
                assert of_arms.stable.squares == pytest.approx(stratum.stable.squares, abs=1e-9)
                assert of_arms.candidate.num == stratum.candidate.num


def test_each_request_is_read_once_and_late_changed_and_removed_ones_are_seen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(database, range(40, 90, 2))
    reader = Reader(database, monkeypatch)
    reader.check(25)
    reader.check(0)
    store(database, [45, 90])  # the first arrived long before, and ended only now
    reader.check(2)
    with database.session() as session:
        session.execute(
            update(RequestRow)
            .where(RequestRow.gateway_sequence == _FIRST + 42)
            .values(in_contract=False, ttft=2.0)
        )
    reader.check(27)
    with database.session() as session:
        session.execute(delete(RequestRow).where(RequestRow.gateway_sequence == _FIRST + 44))
    reader.check(26)
    monkeypatch.setattr(arm_requests, "MOST_REQUESTS", 10)
    reader.num_read = 0
    reader.look()
    assert 3 < reader.num_read < 20
