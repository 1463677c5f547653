"""The journal of requests in flight, so that those of a gateway that died are recorded as lost.

One file per gateway process, one JSON line per change: a request opened, became better known,
or closed because its record is safely in the spool. Whatever is open when the process is gone
was lost. The file is rewritten with the open requests alone when most of it is about closed
ones, so it stays as small as what is in flight.

Written to the page cache: it survives the death of the process, not of the machine.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from dataplane.contract_terms import ContractTerms
from dataplane.gateway.ownership import OwnedDirectory, claim_abandoned, claim_new
from dataplane.judgement import judge
from dataplane.latency import derive_latencies
from dataplane.lifecycle import Delivery, Disposition, Event, EventKind, Observability
from dataplane.outcome import outcome_of
from dataplane.record import RequestRecord, RolloutPlace, TraceContext

_JOURNAL_FILE = "journal"
_MIN_COMPACTION_BYTES = 256 * 2**10
_COMPACTION_FACTOR = 4
"""Rewritten when it is this many times larger than what is still open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightEntry:
    """What is known of a request so far: enough for a record if its gateway dies."""

    request_id: str
    gateway_id: str
    gateway_sequence: int
    """Reserved at arrival, so that a lost record and a real one can never both count."""
    arrived_at_unix_ns: int
    endpoint: str
    trace: TraceContext
    snapshot_version: int = 0
    tenant: str | None = None
    request_class: str | None = None
    deployment: str | None = None
    model: str | None = None
    model_revision: str | None = None
    engine_config_revision: str | None = None
    contract_revision: str | None = None
    policy_revision: str | None = None
    terms: ContractTerms | None = None
    """What its class was promised: a lost request is a broken promise."""
    is_stream: bool = False
    num_prompt_tokens: int | None = None
    prompt_tokens_observability: Observability = Observability.UNOBSERVABLE
    max_output_tokens: int | None = None
    engine: str | None = None
    replica_ids: tuple[str, ...] = ()
    has_written: bool = False
    """A part of the answer may have reached the client."""
    rollout: RolloutPlace | None = None


class _Line(msgspec.Struct, omit_defaults=True):
    entry: InFlightEntry | None = None
    closed: str | None = None


_log = structlog.get_logger(__name__)
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Line)


class InFlightJournal:
    """The open requests of one gateway process. One event loop owns it.

    A disk that takes no more costs only the memory of a crash: the write is given up, logged
    and counted in `num_unwritten`, and the request goes on.
    """

    def __init__(self, directory: Path, gateway_id: str) -> None:
        owned = claim_new(directory / gateway_id)
        if owned is None:
            raise RuntimeError(
                f"another process uses the gateway id {gateway_id} in {directory}: "
                "ids are never reused, start this gateway with a fresh one"
            )
        self.num_unwritten = 0
        self._is_failing = False
        self._owned = owned
        self._path = owned.path / _JOURNAL_FILE
        self._line_by_id: dict[str, bytes] = {}
        self._num_open_bytes = 0
        self._num_bytes = 0
        self._file = _open_for_append(self._path)

    def __len__(self) -> int:
        return len(self._line_by_id)

    def open(self, entry: InFlightEntry) -> None:
        """A request arrived."""
        self.update(entry)

    def update(self, entry: InFlightEntry) -> None:
        """More is known of it; `entry` replaces what was said before."""
        line = _ENCODER.encode(_Line(entry=entry)) + b"\n"
        replaced = self._line_by_id.get(entry.request_id, b"")
        self._line_by_id[entry.request_id] = line
        self._num_open_bytes += len(line) - len(replaced)
        self._append(line)

    def close(self, request_id: str) -> None:
        """Its record is in the spool. Raises KeyError for a request that is not open."""
        line = self._line_by_id.pop(request_id)
        self._num_open_bytes -= len(line)
        self._append(_ENCODER.encode(_Line(closed=request_id)) + b"\n")

    def shut(self) -> None:
        """The process ends in order: with nothing in flight, nothing stays on disk."""
        os.close(self._file)
        if self._line_by_id:
            self._owned.release()
        else:
            self._owned.remove()

    def _append(self, line: bytes) -> None:
        if self._num_bytes > max(_MIN_COMPACTION_BYTES, _COMPACTION_FACTOR * self._num_open_bytes):
            self._compact()
            return
        why = f"only a part of {len(line)} bytes fitted"
        try:
            num_written = os.write(self._file, line)
        except OSError as error:
            num_written, why = 0, str(error)
        if num_written < len(line):
            # What was cut off must not swallow the next line.
            os.ftruncate(self._file, self._num_bytes)
            self._note_unwritten(why)
            return
        self._num_bytes += num_written
        self._is_failing = False

    def _compact(self) -> None:
        """Write the open requests anew and move them over the old file."""
        scratch = self._path.with_suffix(".new")
        try:
            scratch.write_bytes(b"".join(self._line_by_id.values()))
            scratch.replace(self._path)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            self._note_unwritten(str(error))
            return
        os.close(self._file)
        self._file = _open_for_append(self._path)
        self._num_bytes = self._num_open_bytes

    def _note_unwritten(self, why: str) -> None:
        self.num_unwritten += 1
        if not self._is_failing:  # said once: every request would say it again
            _log.warning("a crash would forget requests: the journal takes no more", error=why)
        self._is_failing = True


class AbandonedJournals:
    """The journals of gateways that died, owned until they are forgotten."""

    def __init__(self, directory: Path, may_take: Callable[[str], bool]) -> None:
        self._owned: list[OwnedDirectory] = []
        for owned in claim_abandoned(directory):
            if may_take(owned.path.name):
                self._owned.append(owned)
            else:
                owned.release()
        self.entries = [entry for owned in self._owned for entry in _read_open(owned)]
        """What was in flight when they died."""

    def forget(self) -> None:
        """Delete the journals: every entry is recorded as lost."""
        for owned in self._owned:
            owned.remove()
        self._owned = []


def recover(
    directory: Path, may_take: Callable[[str], bool] = lambda gateway_id: True
) -> AbandonedJournals:
    """What gateways that died left open under `directory`, of those that `may_take` allows.

    Put a `lost_record` of each entry into the spool, then call `forget`. A gateway that
    still runs is passed over.
    """
    return AbandonedJournals(directory, may_take)


def lost_record(entry: InFlightEntry) -> RequestRecord:
    """The record of a request whose gateway died; nothing after its arrival is claimed."""
    events = (Event(kind=EventKind.ARRIVED, at=0.0),)
    latencies = derive_latencies(events, num_output_tokens=None)
    delivery = Delivery.PARTIAL if entry.has_written else Delivery.NONE
    judgement = None
    if entry.terms is not None:
        outcome = outcome_of(Disposition.LOST, delivery, None)
        judgement = judge(latencies, outcome, entry.terms, elapsed=0.0)
    return RequestRecord(
        request_id=entry.request_id,
        gateway_id=entry.gateway_id,
        gateway_sequence=entry.gateway_sequence,
        arrived_at_unix_ns=entry.arrived_at_unix_ns,
        endpoint=entry.endpoint,
        tenant=entry.tenant,
        request_class=entry.request_class,
        deployment=entry.deployment,
        model=entry.model,
        model_revision=entry.model_revision,
        engine_config_revision=entry.engine_config_revision,
        contract_revision=entry.contract_revision,
        policy_revision=entry.policy_revision,
        snapshot_version=entry.snapshot_version,
        trace=entry.trace,
        is_stream=entry.is_stream,
        status_code=None,
        disposition=Disposition.LOST,
        reason=f"the gateway {entry.gateway_id} ended while it was in flight",
        delivery=delivery,
        num_prompt_tokens=entry.num_prompt_tokens,
        prompt_tokens_observability=entry.prompt_tokens_observability,
        num_cached_tokens=None,
        num_output_tokens=None,
        output_tokens_observability=Observability.UNOBSERVABLE,
        max_output_tokens=entry.max_output_tokens,
        engine=entry.engine,
        replica_ids=entry.replica_ids,
        cleanup_observability=Observability.UNOBSERVABLE,
        events=events,
        client=None,
        latencies=latencies,
        judgement=judgement,
        rollout=entry.rollout,
    )


def _open_for_append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _read_open(owned: OwnedDirectory) -> list[InFlightEntry]:
    path = owned.path / _JOURNAL_FILE
    if not path.exists():
        return []
    entry_by_id: dict[str, InFlightEntry] = {}
    for line in path.read_bytes().split(b"\n"):
        change = _decode_line(line)
        if change.entry is not None:
            entry_by_id[change.entry.request_id] = change.entry
        elif change.closed is not None:
            entry_by_id.pop(change.closed, None)
    return list(entry_by_id.values())


def _decode_line(line: bytes) -> _Line:
    """A line that was cut off when its writer died says nothing."""
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError:
        return _Line()
