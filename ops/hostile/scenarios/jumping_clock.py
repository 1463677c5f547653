"""The wall clock of the gateway jumps an hour ahead, then an hour back, while it is overloaded.

Durations are of the monotonic clock, which goes on: nothing may expire for it, no minute may end
early, and whoever is refused must be told a time as short as before.
"""

import asyncio
import time
from pathlib import Path

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, TenantLimits, TenantPolicy
from ops.hostile.calls import Call, evenly
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
from ops.hostile.wall_clock import WallClock

_OVERLOAD = 1.4
_SECONDS = 16.0
_JUMPS = ((4.0, 3600), (8.0, -3600), (12.0, 0))
"""When, and how many seconds the clock is then off."""
_DEADLINE_SECONDS = 1.5
_LONGEST_SECONDS = _DEADLINE_SECONDS + SERVICE_SECONDS + 1.0
_SMALL_TOKENS = 600
_TERMS = AdmissionPolicyTerms(
    revision="jump@1",
    classes=(ClassPolicy(name="all", max_queue=16, deadline_seconds=_DEADLINE_SECONDS),),
    max_active_per_replica=NUM_SEQUENCES,
    tenants={"small": TenantLimits(tokens_per_minute=_SMALL_TOKENS)},
)


def run(folder: Path) -> Outcome:
    """One run. Raises NoCompilerError."""
    outcome = Outcome()
    with open_place(folder) as place:
        clock = WallClock(folder)
        [replica] = place.start_replicas(1, simulator())
        place.start_gateway(
            _TERMS,
            {replica.replica_id: replica.address},
            (TenantPolicy(name="small"),),
            clock.environment,
        )

        async def jump() -> list[Call]:
            async with clients_of(place, outcome) as (clients, _):
                planned = evenly(_OVERLOAD * capacity(1), _SECONDS, lambda n: call(n))
                planned += evenly(2.0, _SECONDS, lambda n: call(n, tenant="small"))
                began = time.monotonic()
                async with asyncio.TaskGroup() as group:
                    group.create_task(clients.send_all(planned))
                    for at, offset in _JUMPS:
                        await asyncio.sleep(began + at - time.monotonic())
                        clock.set_off(offset)
            return clients.calls

        calls = asyncio.run(jump())
        records = read_records(place.state_dir)
    _judge(calls, outcome)
    arrivals = [record.arrived_at_unix_ns / 1e9 for record in records]
    outcome.figures["wall_clock_went_over_seconds"] = max(arrivals) - min(arrivals)
    outcome.expect(max(arrivals) - min(arrivals) > 7000, "the wall clock did jump")
    times = [event.at for record in records for event in record.events]
    outcome.expect(
        0 <= min(times) <= max(times) <= _LONGEST_SECONDS,
        f"no record tells of more than {_LONGEST_SECONDS:g} s: {min(times):g} to {max(times):g}",
    )
    return outcome


def _judge(calls: list[Call], outcome: Outcome) -> None:
    refused = [each for each in calls if each.status != 200]
    waits = [int(each.retry_after or 0) for each in refused if each.tenant == "default"]
    small = [each for each in calls if each.tenant == "small" and each.status == 200]
    num_small_tokens = sum(len(each.prompt) + each.max_tokens for each in small)
    num_answered = sum(each.status == 200 and each.is_whole for each in calls)
    by_quarter = [
        sum(each.status == 200 for each in calls if begin <= each.at < begin + 4.0)
        for begin in (0.0, 4.0, 8.0, 12.0)
    ]
    outcome.figures |= {
        "answered": num_answered,
        "answered_by_quarter": by_quarter,
        "longest_seconds": max(each.seconds for each in calls),
        "retry_after": f"{min(waits)} to {max(waits)} s",
        "small_tenant_tokens": num_small_tokens,
    }
    outcome.expect(all(each.is_whole for each in calls), "every call was answered or refused")
    outcome.expect(
        max(each.seconds for each in calls) <= _LONGEST_SECONDS,
        f"nobody waits longer than {_LONGEST_SECONDS:g} s",
    )
    outcome.expect(
        all(1 <= seconds <= 10 for seconds in waits), f"Retry-After is {min(waits)} to {max(waits)}"
    )
    outcome.expect(
        min(by_quarter) >= 0.7 * max(by_quarter), f"as many are answered as before: {by_quarter}"
    )
    outcome.expect(
        num_small_tokens <= _SMALL_TOKENS, f"{num_small_tokens} tokens of {_SMALL_TOKENS} a minute"
    )
