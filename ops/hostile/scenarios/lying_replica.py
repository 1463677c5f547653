"""One of two replicas lies: first about itself, then about its work.

It does its work as well as the other one. Whatever it says of its load, it must not draw requests
to it, nobody may be refused for it, and no number of it may be counted that cannot be. Once it
says of its work what cannot be, it must be ejected.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataplane.engine import EngineEvent, EngineUse
from dataplane.host.wire import EventBatch, ReplicaMessage, RequestEvent, StatsReply
from dataplane.lifecycle import EventKind
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, KVLimits, RoutingTerms
from dataplane.record import RequestRecord
from ops.hostile.calls import Call, evenly
from ops.hostile.outcome import Outcome
from ops.hostile.place import open_place
from ops.hostile.records import read_records
from ops.hostile.relay import Lie, relaying, tell_the_truth
from ops.hostile.setting import NUM_SEQUENCES, NUM_TOKENS, call, capacity, clients_of, simulator

_LIAR, _HONEST = "replica-0", "replica-1"
_MOST_FAILED = 20
"""Five in a row, and a replica is ejected; what it has by then fails too."""
_MOST_PROMPT_TOKENS = 200
"""Of a prompt whose bytes are tokens."""
_MOST_USE = 1e4
"""Seconds, and blocks times seconds, of one request."""
_SECONDS = 4.0
_SHARE = 0.6
"""Of what both can do."""
_MOST_SHARE = 0.65
_EJECTION = {"eject_seconds": 3.0, "return_seconds": 1.0}
_MOST_SHARE_EJECTED = 0.25
"""It comes back now and then, and fails again at once."""
_TERMS = AdmissionPolicyTerms(
    revision="lies@1",
    classes=(ClassPolicy(name="all", max_queue=512),),
    max_active_per_replica=NUM_SEQUENCES,
    kv=KVLimits(),
    routing=RoutingTerms(settings={"ejection": _EJECTION}),
)
_STATS: dict[str, dict[str, Any]] = {
    "idle": {"num_running": 0, "num_waiting": 0, "num_referenced_blocks": 0},
    "negative": {"num_running": -50, "num_waiting": -(10**6), "num_free_blocks": -1},
    "nan": {"age_seconds": math.nan},
    "from the future": {"age_seconds": -3600.0, "num_running": 0, "num_waiting": 0},
    "huge": {"num_running": 10**9, "num_waiting": 10**9},
    "endless memory": {"num_blocks": 10**15, "num_referenced_blocks": 0, "num_running": 0},
    "no block": {"block_size": 0},
    "more than all blocks": {"num_free_blocks": 10**6},
}


def run(folder: Path) -> Outcome:
    """One gateway, one lie after the other."""
    outcome = Outcome()
    with open_place(folder) as place:
        liar, honest = place.start_replicas(2, simulator())

        async def lie() -> list[Call]:
            async with relaying(liar.address) as relay:
                addresses = {_LIAR: relay.address, _HONEST: honest.address}
                await asyncio.to_thread(place.start_gateway, _TERMS, addresses)
                async with clients_of(place, outcome) as (clients, _):
                    for name, told in _lies().items():
                        relay.lie = told
                        await clients.send_all(_calls(name))
                        relay.lie = tell_the_truth
            return clients.calls

        calls = asyncio.run(lie())
        records = read_records(place.state_dir)
    shares = _shares_of_liar(records)
    failed = Counter(each.kind for each in calls if each.status != 200 or not each.is_whole)
    outcome.figures |= {"share_of_liar": shares, "failed": dict(failed)}
    for name in (*_STATS, "frozen"):
        outcome.expect(failed[name] == 0, f"{failed[name]} calls failed while it lied: {name}")
        _expect_share(shares, name, _MOST_SHARE, outcome)
    for name in ("use", "counts"):
        outcome.expect(failed[name] == 0, f"{failed[name]} calls failed for an untrue {name}")
    outcome.expect(
        0 < failed["end"] + failed["after"] <= _MOST_FAILED,
        f"{failed['end']} and {failed['after']} calls failed for untrue counts",
    )
    for name in ("use", "counts", "end", "after"):
        _expect_share(shares, name, _MOST_SHARE_EJECTED, outcome)
    _find_untrue(records, outcome)
    return outcome


def _lies() -> dict[str, Lie]:
    """In order; the last ones are of its work."""
    return {
        **{name: _of_itself(stats) for name, stats in _STATS.items()},
        "frozen": _frozen(),
        "use": _of_work(_untrue_use),
        "truth again": tell_the_truth,
        "counts": _of_work(_untrue_counts),
        "once more the truth": tell_the_truth,
        "end": _of_work(_untrue_end),
        "after": _of_work(_untrue_end),
    }


def _calls(name: str) -> list[Call]:
    rate = _SHARE * capacity(2)
    headers = {"traceparent": f"00-{_trace_id(name)}-00f067aa0ba902b7-00"}
    return evenly(rate, _SECONDS, lambda number: call(number, kind=name, headers=headers))


def _trace_id(name: str) -> str:
    """By which the records of the calls during one lie are told apart."""
    return name.encode().hex().ljust(32, "0")[:32]


def _of_itself(stats: dict[str, Any]) -> Lie:
    def lie(message: ReplicaMessage) -> ReplicaMessage:
        if isinstance(message, StatsReply):
            return StatsReply(message.query_id, replace(message.stats, **stats))
        return message

    return lie


def _frozen() -> Lie:
    """The first snapshot again and again, as if it were new."""
    kept: list[StatsReply] = []

    def lie(message: ReplicaMessage) -> ReplicaMessage:
        if isinstance(message, StatsReply):
            kept.append(message)
            return StatsReply(message.query_id, replace(kept[0].stats, age_seconds=0.0))
        return message

    return lie


def _of_work(untrue: Callable[[EngineEvent], EngineEvent]) -> Lie:
    def lie(message: ReplicaMessage) -> ReplicaMessage:
        if not isinstance(message, EventBatch):
            return message
        return EventBatch(
            tuple(RequestEvent(each.request_id, untrue(each.event)) for each in message.events)
        )

    return lie


def _untrue_use(event: EngineEvent) -> EngineEvent:
    if event.kind is not EventKind.RELEASED:
        return event
    return replace(event, used=EngineUse(engine_seconds=-1e6, kv_block_seconds=math.nan))


def _untrue_counts(event: EngineEvent) -> EngineEvent:
    """Each could be of some request, and not of these."""
    if event.kind is EventKind.PREFILL_CHUNK:
        return replace(event, num_cached_tokens=10**5)
    if event.kind is EventKind.FINISHED:
        return replace(event, num_prompt_tokens=10**6, num_output_tokens=10**6)
    return event


def _untrue_end(event: EngineEvent) -> EngineEvent:
    if event.kind is not EventKind.FIRST_TOKEN:
        return event
    return replace(event, num_tokens=-(10**9))


def _shares_of_liar(records: list[RequestRecord]) -> dict[str, float]:
    """Of the calls that came while it told each lie, the share that was sent to it first. A lie of
    which no call was sent anywhere has none."""
    shares = {}
    for name in _lies():
        sent = [
            record.replica_ids[0]
            for record in records
            if record.trace.trace_id == _trace_id(name) and record.replica_ids
        ]
        if sent:
            shares[name] = sent.count(_LIAR) / len(sent)
    return shares


def _expect_share(shares: dict[str, float], name: str, most: float, outcome: Outcome) -> None:
    share = shares.get(name)
    outcome.expect(
        share is not None and share <= most,
        f"it got {share} of the calls while it lied, of {most} at most: {name}",
    )


def _find_untrue(records: list[RequestRecord], outcome: Outcome) -> None:
    """No record holds what cannot be."""
    for record in records:
        metered, num_prompt = record.metered, record.num_prompt_tokens or 0
        numbers: list[tuple[float, float]] = [
            (num_prompt, _MOST_PROMPT_TOKENS),
            (record.num_cached_tokens or 0, num_prompt),
            (record.num_output_tokens or 0, NUM_TOKENS),
        ]
        if metered is not None:
            numbers += [
                (metered.engine_seconds, _MOST_USE),
                (metered.kv_block_seconds or 0.0, _MOST_USE),
            ]
        if not all(0 <= number <= most for number, most in numbers):
            told = ", ".join(f"{number:g} of {most:g}" for number, most in numbers)
            outcome.wrong.append(f"record {record.request_id} holds {told}")
            return
