"""Requests of both arms: those of the step alone, and of too many evenly some."""

from dataclasses import replace
from random import Random

import pytest

from controlplane.store import arm_requests
from controlplane.store.arm_requests import read_arm_requests
from controlplane.store.connection import DatabaseKind
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from dataplane.arm import Arm
from dataplane.record import RolloutPlace
from ops.sample_requests import CHAT_TERMS, Sample, answered, failed
from tests.databases import Databases

NS = 10**9
_FIRST = 2**62
"""Gateways count on over restarts: years of many requests are a large number."""


def test_of_too_many_some_of_all_times_are_read_and_each_objective_is_judged(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_requests, "MOST_REQUESTS", 50)
    database = databases.open(DatabaseKind.REQUESTS)
    records = []
    for n in range(300):
        arm = Arm.CANDIDATE if n % 10 == 0 else Arm.STABLE
        tell = failed if arm is Arm.CANDIDATE else answered
        sample = Sample(
            sequence=_FIRST + n, arrived_at_unix_ns=(1000 + n) * NS, num_output_tokens=40
        )
        place = RolloutPlace(number=3 if n >= 20 else 2, arm=arm)
        records.append(replace(tell(sample), rollout=place, deployment="chat"))
    with database.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=0, records=tuple(records))
        store_batch(session, batch, Random(1), ReservoirSizes())
    with database.reading() as session:
        found = read_arm_requests(session, "chat", 3, 1040 * NS, lambda *_: CHAT_TERMS)
    database.close()
    candidates = [request for arm, request in found if arm is Arm.CANDIDATE]
    stable = [request for arm, request in found if arm is Arm.STABLE]
    assert len(candidates) == 26  # all of them: these are few
    assert 30 <= len(stable) <= 50  # of 234
    assert all(each.objectives["availability"] for each in stable)
    assert not any(each.objectives["availability"] for each in candidates)
