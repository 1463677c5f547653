"""One of two replicas hangs: its door takes connections, and nothing is said any more. Later it
goes on.

Whoever has no byte of an answer yet must be answered by the other one; whoever comes once it is
known must not notice; and the replica must be used again once it is back.
"""

import asyncio
import time
from pathlib import Path

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, RoutingTerms
from ops.hostile.calls import Call, evenly, share_within
from ops.hostile.outcome import Outcome
from ops.hostile.place import open_place
from ops.hostile.records import read_records
from ops.hostile.setting import (
    NUM_SEQUENCES,
    SERVICE_SECONDS,
    call,
    capacity,
    clients_of,
    simulator,
)

NUM_REPLICAS = 2
_SHARE_OF_ONE = 0.6
"""Of what one replica can do: the other one can do all."""
_STALLS_AT = 4.0
_GOES_ON_AT = 16.0
_SECONDS = 34.0
_KNOWN_SECONDS = 7.5
"""A replica that tells nothing of itself for 5 s is lost; it is asked every second."""
_BACK_SECONDS = 12.0
_EJECTION = {"stall_seconds": 3.0, "eject_seconds": 2.0, "return_seconds": 4.0}
_TERMS = AdmissionPolicyTerms(
    revision="stall@1",
    classes=(ClassPolicy(name="all", max_queue=512),),
    max_active_per_replica=NUM_SEQUENCES,
    routing=RoutingTerms(settings={"ejection": _EJECTION}),
)


def run(folder: Path) -> Outcome:
    """One run."""
    outcome = Outcome()
    with open_place(folder) as place:
        replicas = place.start_replicas(NUM_REPLICAS, simulator())
        place.start_gateway(_TERMS, {each.replica_id: each.address for each in replicas})

        async def stall() -> list[Call]:
            async with clients_of(place, outcome) as (clients, _):
                rate = _SHARE_OF_ONE * capacity(1)
                began = time.monotonic()
                async with asyncio.TaskGroup() as group:
                    sending = group.create_task(
                        clients.send_all(evenly(rate, _SECONDS, lambda number: call(number)))
                    )
                    await asyncio.sleep(began + _STALLS_AT - time.monotonic())
                    replicas[0].stall()
                    await asyncio.sleep(began + _GOES_ON_AT - time.monotonic())
                    replicas[0].go_on()
                    await sending
            return clients.calls

        calls = asyncio.run(stall())
        records = read_records(place.state_dir)
    known_at, back_at = _STALLS_AT + _KNOWN_SECONDS, _GOES_ON_AT + _BACK_SECONDS
    failed = [each for each in calls if each.status != 200 or not each.is_whole]
    before = [each for each in calls if each.at < _STALLS_AT - SERVICE_SECONDS]
    meanwhile = [each for each in calls if known_at <= each.at < _GOES_ON_AT - SERVICE_SECONDS]
    afterwards = [each for each in calls if each.at >= back_at]
    p99_before, p99_meanwhile, p99_afterwards = (
        share_within(each, 0.99, lambda one: one.seconds)
        for each in (before, meanwhile, afterwards)
    )
    begins_ns = min(record.arrived_at_unix_ns for record in records)
    used_again = [
        record
        for record in records
        if (record.arrived_at_unix_ns - begins_ns) / 1e9 >= back_at
        and "replica-0" in record.replica_ids
    ]
    outcome.figures |= {
        "failed": len(failed),
        "retried": sum(len(record.replica_ids) > 1 for record in records),
        "longest_seconds": max(each.seconds for each in calls),
        "p99_seconds_before": p99_before,
        "p99_seconds_meanwhile": p99_meanwhile,
        "p99_seconds_afterwards": p99_afterwards,
        "served_by_it_afterwards": len(used_again),
    }
    outcome.expect(
        all(each.sent_at - calls[0].sent_at < _STALLS_AT + 0.05 for each in failed),
        "only answers that had begun where it hung are lost",
    )
    outcome.expect(len(failed) <= NUM_SEQUENCES, f"{len(failed)} calls failed")
    outcome.expect(
        max(each.seconds for each in calls) <= _KNOWN_SECONDS + 3.0, "nobody waits for it for long"
    )
    for name, p99 in (("meanwhile", p99_meanwhile), ("afterwards", p99_afterwards)):
        outcome.expect(
            p99 <= 2 * p99_before + 0.3, f"p99 is {p99:.2f} s {name}, {p99_before:.2f} s before"
        )
    outcome.expect(len(used_again) > 0, "it is used again once it is back")
    return outcome
