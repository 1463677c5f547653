"""A replica that failed leaves a log, which says of what; until another one is ready."""

from pathlib import Path

from controlplane.diagnosis.always_on.failure_log import (
    Failure,
    given_up,
    newest_failures,
    read_failure,
)
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.life.given_up import judge_given_up
from controlplane.diagnosis.sources.joining import join
from controlplane.store.replicas import ReplicaState, ReplicaTransition
from tests.controlplane.diagnosis.rules.evidence import repeated

_AT = 1_790_000_100.0
_OOM = (
    '{"event": "the engine failed: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate '
    "2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free. Including "
    "non-PyTorch memory, this process has 78.06 GiB memory in use. Of the allocated memory 76.00 "
    'GiB is allocated by PyTorch, and 402.00 MiB is reserved by PyTorch but unallocated.", '
    '"level": "error", "at": "2026-09-21T14:14:58.142440Z"}'
)


def _transition(
    replica_id: str, state: ReplicaState, at: int, reason: str = "exit code 1"
) -> ReplicaTransition:
    return ReplicaTransition(
        replica_id=replica_id,
        deployment="chat",
        state=state,
        reason=reason,
        at_unix_ns=at * 10**9,
    )


def test_it_counts_until_another_is_ready_and_a_start_does_not_end_it() -> None:
    failed = _transition("chat-1", ReplicaState.FAILED, 100)
    starting = _transition("chat-2", ReplicaState.STARTING, 110)
    ready = _transition("chat-2", ReplicaState.READY, 120)
    found = newest_failures([starting, failed])
    assert found["chat"].replica_id == "chat-1"
    assert newest_failures([ready, starting, failed]) == {}


def test_what_it_wrote_last_stands_at_its_time(tmp_path: Path) -> None:
    (tmp_path / "chat-1.log").write_text(f"{_OOM}\n")
    failure = Failure(deployment="chat", replica_id="chat-1", at=_AT, reason="exit code 1")
    part = read_failure(failure, tmp_path)
    (event,) = [each for each in part.events if each.kind is LogKind.OUT_OF_MEMORY]
    assert event.at is not None
    assert abs(event.at - _AT) < 5
    assert event.fields["wanted_bytes"] == 2 * 2**30


def test_without_a_log_the_reason_is_read(tmp_path: Path) -> None:
    failure = Failure(deployment="chat", replica_id="chat-1", at=_AT, reason="exit code 137")
    assert read_failure(failure, tmp_path).lines == ("exit code 137",)


def test_whom_the_operator_gave_up_as_hung_is_told_of_for_a_while_though_it_ended() -> None:
    hung = "hung: 2 probes in a row failed and it took no step; last: no answer within 2 s"
    drained = _transition("chat-1", ReplicaState.DRAINING, 100, hung)
    replaced = _transition("chat-3", ReplicaState.DRAINING, 105, "an older revision")
    transitions = [replaced, _transition("chat-1", ReplicaState.FAILED, 103), drained]
    part = given_up(transitions, since=50.0)["chat"]
    found = join([part])
    verdict = judge_given_up(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "given up: chat-1"
    assert any(hung in each for each in repeated(found, verdict))
    assert given_up(transitions, since=101.0) == {}
    assert judge_given_up(join([])) is None
