"""Made-up config, replicas and gateways for the seeded console.

The documents are those of `ops/demo`, changed a few times by different people, so that there
is a history to look at: nobody has to keep a second set of them in step.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from sqlalchemy.orm import Session

from controlplane.hooks import StrayKind, StrayProcess
from controlplane.operator.observed import ObservedReplica
from controlplane.operator.stray import Stray, StrayJudgement
from controlplane.specs.documents import load_documents
from controlplane.store.catalog import StoreCatalog
from controlplane.store.database import Database
from controlplane.store.deployments import set_observed_generation
from controlplane.store.replicas import ReplicaState, add_replica, move_replica
from controlplane.store.revisions import apply_documents
from controlplane.store.series import MinuteSample, add_samples
from dataplane.engine import EngineStats, ReplicaSpec
from dataplane.lifecycle import RequestCounts
from dataplane.record import RequestRecord
from dataplane.report import GatewayReport, ReplicaReport

MINUTE_NS = 60 * 10**9
_POLICY = "chat@2"
_DEMO = Path(__file__).parent / "demo"
_STARTED, _READY = ReplicaState.STARTING, ReplicaState.READY
_STAGES = {"acquire": 0.1, "load": 1.9, "warm_up": 0.8}
_MIB = 2**20
_LEDGER = {
    "weights": 88 * _MIB,
    "weight_metadata": 0,
    "workspace": 46 * _MIB,
    "graph": 0,
    "communication": 0,
    "fragmentation": 0,
    "reserve": 32 * _MIB,
    "kv": 180 * _MIB,
    "unassigned": 38 * _MIB,
}


@dataclass(frozen=True, slots=True)
class _Step:
    """Documents applied together."""

    minutes_ago: float
    author: str
    reason: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Life:
    """One replica: the minutes ago at which it entered each state, with the reason."""

    replica_id: str
    states: tuple[tuple[float, ReplicaState, str], ...]


def deploy(database: Database, now_unix_ns: int, has_trouble: bool) -> None:
    """Apply the documents one change after the other, and let replicas come and go."""
    for step in _steps():
        _apply(database, step, now_unix_ns)
    with database.session() as session:
        for life in _lives(has_trouble):
            _live(session, life, now_unix_ns)
        set_observed_generation(session, "chat", 3)
        set_observed_generation(session, "summarize", 1 if not has_trouble else 0)


def observed_replicas(now_unix_ns: int, has_trouble: bool) -> list[ObservedReplica]:
    """As the operator would see them now."""
    failed = "summarize-2" if has_trouble else ""
    names = ["chat-2", "chat-3", "chat-4", "summarize-2" if has_trouble else "summarize-1"]
    return [
        ObservedReplica(
            replica_id=replica_id,
            deployment=replica_id.rpartition("-")[0],
            engine="paged",
            model_revision="smollm2@1",
            state="failed" if replica_id == failed else "ready",
            reason=_KILLED if replica_id == failed else "it generated a token",
            stage="load" if replica_id == failed else "serving",
            pid=4000 + number,
            address=f"127.0.0.1:{40100 + number}",
            metrics_address=f"127.0.0.1:{40200 + number}",
            start_stages=_STAGES,
            probed_at_unix_ns=None if replica_id == failed else now_unix_ns - 4 * 10**9,
            observed_at_unix_ns=now_unix_ns - 3 * 10**8,
            fencing_token=number + 11,
            unobservable_stages=("compile",) if replica_id == "chat-4" else (),
        )
        for number, replica_id in enumerate(names)
    ]


def strays(now_unix_ns: int) -> list[Stray]:
    """A worker that outlived its replica, and one that was ended some minutes ago."""
    worker = StrayProcess(
        stray_id="remains-4811.1",
        kind=StrayKind.REMAINS,
        pid=4811,
        replica_id="summarize-1",
        fencing_token=9,
        command="python -m dataplane.host",
        ports=(40101,),
        resident_bytes=1_310 * 2**20,
        device_bytes=None,
    )
    found = Stray(
        stray_id=worker.stray_id,
        kind=StrayJudgement.ZOMBIE,
        launcher="local",
        process=worker,
        why="its replica failed",
        found_at_unix_ns=now_unix_ns - 90 * 10**9,
        seen_at_unix_ns=now_unix_ns - 2 * 10**9,
        num_looks=18,
        error="Operation not permitted",
    )
    gone = replace(
        found,
        stray_id="remains-4790.1",
        kind=StrayJudgement.ORPHAN,
        process=replace(worker, pid=4790, replica_id="chat-1", ports=(), device_bytes=6 * 2**30),
        why="no replica was ever called that",
        error=None,
        ended_at_unix_ns=now_unix_ns - 11 * MINUTE_NS,
    )
    return [found, gone]


def holds(has_trouble: bool) -> dict[str, str]:
    """What the operator would say of deployments that lack replicas and get none now."""
    if not has_trouble:
        return {}
    return {
        "summarize": f"failed 2 times in a row, next start in 41 s; last: {_KILLED}",
    }


def gateway_report(now_unix_ns: int, address: str) -> GatewayReport:
    """One gateway's, with two engines that tell their memory and one that does not."""
    return GatewayReport(
        gateway_id="gateway-0-9c1f",
        name="gateway-0",
        address=address,
        started_at_unix_ns=now_unix_ns - 90 * MINUTE_NS,
        reported_at_unix_ns=now_unix_ns,
        snapshot_version=31,
        snapshot_error=None,
        counts=RequestCounts(
            arrived=412, invalid=8, undecided=0, rejected=11, admitted=393, active=5, finished=388
        ),
        num_queued=2,
        oldest_queued_seconds=0.24,
        num_records_spooled=0,
        num_records_lost=0,
        replicas=(
            _replica_report("chat-2", 2, _LEDGER),
            _replica_report("chat-3", 3, _LEDGER),
            _replica_report("chat-4", 0, None),
        ),
        num_queued_by_deployment={"chat": 2, "summarize": 0},
    )


def store_gauges(database: Database, now_unix_ns: int, num_minutes: int = 95) -> None:
    """What gateways showed minute by minute, with seven of them in which nobody was heard."""
    first = now_unix_ns // 10**9 // 60 * 60 - num_minutes * 60
    with database.session() as session:
        for number in range(num_minutes):
            if num_minutes - 52 <= number < num_minutes - 45:
                continue
            wave = abs((number * 7) % 40 - 20) / 10
            add_samples(
                session,
                [
                    MinuteSample(
                        minute_unix=first + number * 60,
                        deployment=deployment,
                        num_gateways=1,
                        active=share * (4 + wave),
                        queued=share * max(0.0, wave - 1),
                    )
                    for deployment, share in (("", 1.0), ("chat", 1.0), ("summarize", 0.0))
                ],
            )


def under_seeded_config(records: list[RequestRecord]) -> list[RequestRecord]:
    """The same requests as if the revisions applied here had been in force."""
    return [
        replace(
            record,
            contract_revision=record.contract_revision and "chat@1",
            policy_revision=record.policy_revision and _POLICY,
            decision=record.decision
            and msgspec.structs.replace(record.decision, policy_revision=_POLICY),
            engine_config_revision=record.engine_config_revision and "paged@2",
        )
        for record in records
    ]


def live_requests(now_unix_ns: int) -> dict[str, object]:
    """What a gateway answers when it is asked for its requests in flight."""
    states = (
        ("queued", "a slot", None, 0.24, 0),  # batch: the younger one goes before it
        ("queued", "a slot", None, 0.11, 0),
        ("prefill", "its first token", "chat-3", 0.62, 0),
        ("decode", "the next token", "chat-2", 3.4, 41),
        ("decode", "the client to read", "chat-3", 12.8, 388),
    )
    return {
        "at_unix_ns": now_unix_ns,
        "requests": [
            {
                "request_id": f"{0xA1B2C3D4 + number:032x}"[::-1],
                "trace_id": f"{0xE5F6 + number:032x}",
                "state": state,
                "age_seconds": age,
                "waits_for": waits_for,
                "queue_position": 2 - number if state == "queued" else None,
                "queue_age_seconds": age - 0.01 if state == "queued" else None,
                "tenant": ("acme", "globex")[number % 2],
                "request_class": "interactive" if number else "batch",
                "deployment": "chat",
                "replica_id": replica_id,
                "num_prompt_tokens": 128 * (number + 1),
                "num_output_tokens": num_output_tokens,
                "max_output_tokens": 512,
            }
            for number, (state, waits_for, replica_id, age, num_output_tokens) in enumerate(states)
        ],
    }


def _steps() -> tuple[_Step, ...]:
    texts = {path.stem: path.read_text() for path in sorted(_DEMO.glob("*.yaml"))}
    contract = _changed(texts["contract"], ("at_most: 2s", "at_most: 300ms"))
    contract = _changed(contract, ("at_most: 400ms", "at_most: 40ms"))
    three = _changed(
        texts["deployment"], ("replicas: 1", "replicas: 3\n  replica_price: {per_hour: 2.4}")
    )
    summarize = _changed(texts["deployment"], ("{name: chat}", "{name: summarize}"))
    summarize = _changed(summarize, ("  contract: chat\n", ""))
    policy = _changed(
        texts["policy"], ("max_queue: 256, deadline: 5m", "max_queue: 64, deadline: 10s")
    )
    engine = _changed(
        texts["engine"], ("engine: paged\n", "engine: paged\n  settings: {max_num_seqs: 32}\n")
    )
    first = (texts["model"], texts["engine"], texts["policy"], contract, texts["tenant"], three)
    return (
        _Step(26 * 60, "ann", "first install", (*first, summarize)),
        _Step(91, "ann", "as many sequences as the policy lets in", (engine,)),
        _Step(21, "ben", "nobody waits five minutes for an answer", (policy,)),
    )


def _changed(text: str, change: tuple[str, str]) -> str:
    old, new = change
    if text.count(old) != 1:
        raise ValueError(f"ops/demo has changed: it holds {old!r} {text.count(old)} times")
    return text.replace(old, new)


def _apply(database: Database, step: _Step, now_unix_ns: int) -> None:
    at = now_unix_ns - int(step.minutes_ago * MINUTE_NS)
    files = [(f"seed-{number}.yaml", text) for number, text in enumerate(step.texts)]
    with database.session() as session:
        loaded = load_documents(files, StoreCatalog(session))
        if loaded.problems:
            raise ValueError("; ".join(str(problem) for problem in loaded.problems))
        apply_documents(
            session, loaded.documents, author=step.author, reason=step.reason, clock=_at(at)
        )


def _at(unix_ns: int) -> Callable[[], int]:
    return lambda: unix_ns


_KILLED = "exit code 137, killed by the kernel"


def _lives(has_trouble: bool) -> list[_Life]:
    replaced = "its engine config changed"
    lives = [
        _Life(
            f"chat-{number}",
            (
                (91 - number / 10, _STARTED, "it was missing"),
                (90.9 - number / 10, _READY, "it generated a token"),
            ),
        )
        for number in (2, 3, 4)
    ]
    old = (
        (26 * 60, _STARTED, "it was missing"),
        (26 * 60 - 0.1, _READY, "it generated a token"),
        (90.4, ReplicaState.DRAINING, replaced),
        (86, ReplicaState.STOPPED, "drained"),
    )
    lives.append(_Life("chat-1", old))
    steady = ((89.0, _STARTED, "it was missing"), (88.9, _READY, "it generated a token"))
    if not has_trouble:
        return [*lives, _Life("summarize-1", steady)]
    return [
        *lives,
        _Life("summarize-1", (*steady, (6.0, ReplicaState.FAILED, _KILLED))),
        _Life(
            "summarize-2", ((5.9, _STARTED, "it was missing"), (2.1, ReplicaState.FAILED, _KILLED))
        ),
    ]


def _live(session: Session, life: _Life, now_unix_ns: int) -> None:
    (minutes_ago, _, reason), *later = life.states
    spec = ReplicaSpec(
        replica_id=life.replica_id,
        deployment=life.replica_id.rpartition("-")[0],
        engine="paged",
        model_name="smollm2",
        model_revision="smollm2@1",
        engine_config_revision="paged@1" if life.replica_id == "chat-1" else "paged@2",
        artifact="/models/smollm2.gguf",
    )
    add_replica(
        session, spec, spec_digest="0" * 64, launcher="local", reason=reason,
        now_unix_ns=now_unix_ns - int(minutes_ago * MINUTE_NS),
    )  # fmt: skip
    for minutes_ago, state, reason in later:
        move_replica(
            session, life.replica_id, state, reason=reason,
            now_unix_ns=now_unix_ns - int(minutes_ago * MINUTE_NS),
        )  # fmt: skip


def _replica_report(
    replica_id: str, num_running: int, ledger: dict[str, int] | None
) -> ReplicaReport:
    used = 70 * num_running
    cached = 90 if num_running else 0
    return ReplicaReport(
        replica_id=replica_id,
        is_connected=True,
        num_outstanding=num_running,
        stats=EngineStats(
            age_seconds=0.3, max_num_seqs=32, num_running=num_running, num_waiting=0,
            num_blocks=512, num_free_blocks=512 - used, num_referenced_blocks=used,
            num_cached_blocks=used // 2 + cached, num_evictable_blocks=cached,
            num_preemptions=num_running, ledger=ledger,
        ),
    )  # fmt: skip
