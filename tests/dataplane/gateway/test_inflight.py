"""The journal of requests in flight: what a dead gateway had open is recorded as lost."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.gateway import inflight as inflight_module
from dataplane.gateway.inflight import InFlightEntry, InFlightJournal, lost_record, recover
from dataplane.judgement import Verdict
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, Observability
from dataplane.record import decode_record, encode_record
from tests.dataplane.golden_request import TRACE

_GATEWAY = "gateway-0-a"


def _entry(sequence: int, gateway_id: str = _GATEWAY) -> InFlightEntry:
    return InFlightEntry(
        request_id=f"request-{sequence}",
        gateway_id=gateway_id,
        gateway_sequence=sequence,
        arrived_at_unix_ns=1_700_000_000_000_000_000 + sequence,
        endpoint="/v1/completions",
        trace=TRACE,
    )


def _die(journal: InFlightJournal) -> None:
    """What the kernel does when a process ends: descriptors close, and with them the lock."""
    os.close(journal._file)
    journal._owned.release()


def _recovered(directory: Path) -> list[InFlightEntry]:
    abandoned = recover(directory)
    for owned in abandoned._owned:
        owned.release()
    return abandoned.entries


def test_only_what_was_open_is_recovered_as_it_was_last_known(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    for sequence in range(3):
        journal.open(_entry(sequence))
    known = dataclasses.replace(_entry(2), deployment="chat", replica_ids=("replica-1",))
    journal.update(known)
    journal.close("request-0")
    _die(journal)
    assert _recovered(tmp_path) == [_entry(1), known]


def test_a_gateway_that_lives_loses_nothing(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    journal.open(_entry(0))
    assert recover(tmp_path).entries == []
    assert len(journal) == 1
    _die(journal)


def test_a_gateway_that_ended_in_order_leaves_nothing(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    journal.open(_entry(0))
    journal.close("request-0")
    journal.shut()
    assert list(tmp_path.iterdir()) == []


def test_a_gateway_that_ended_with_requests_open_leaves_them(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    journal.open(_entry(0))
    journal.shut()
    assert _recovered(tmp_path) == [_entry(0)]


def test_what_was_recovered_stays_until_it_is_forgotten(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    journal.open(_entry(0))
    _die(journal)
    assert _recovered(tmp_path) == [_entry(0)], "the successor died before it could record it"
    abandoned = recover(tmp_path)
    assert abandoned.entries == [_entry(0)]
    abandoned.forget()
    assert list(tmp_path.iterdir()) == []
    assert recover(tmp_path).entries == []


def test_nothing_is_recovered_where_there_was_never_a_gateway(tmp_path: Path) -> None:
    assert recover(tmp_path / "missing").entries == []


def test_several_predecessors_are_recovered_together(tmp_path: Path) -> None:
    for name in ("gateway-0-a", "gateway-0-b"):
        journal = InFlightJournal(tmp_path, name)
        journal.open(_entry(0, name))
        _die(journal)
    assert [entry.gateway_id for entry in _recovered(tmp_path)] == ["gateway-0-a", "gateway-0-b"]


def test_a_line_cut_off_by_death_hides_no_other(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    journal.open(_entry(0))
    os.write(journal._file, b'{"entry":{"request_id":"torn')
    _die(journal)
    assert _recovered(tmp_path) == [_entry(0)]


def test_the_file_stays_as_small_as_what_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflight_module, "_MIN_COMPACTION_BYTES", 4096)
    journal = InFlightJournal(tmp_path, _GATEWAY)
    journal.open(_entry(0))
    for sequence in range(1, 500):
        journal.open(_entry(sequence))
        journal.close(f"request-{sequence}")
        assert journal._path.stat().st_size < 4096 + 1024
    journal.open(_entry(500))
    _die(journal)
    assert _recovered(tmp_path) == [_entry(0), _entry(500)]


def test_closing_what_is_not_open_is_a_broken_contract(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    with pytest.raises(KeyError, match="request-9"):
        journal.close("request-9")
    journal.shut()


def test_one_gateway_id_is_never_used_twice_at_once(tmp_path: Path) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    with pytest.raises(RuntimeError, match="another process uses the gateway id gateway-0-a"):
        InFlightJournal(tmp_path, _GATEWAY)
    journal.shut()


def test_a_full_disk_costs_the_memory_of_a_crash_and_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = InFlightJournal(tmp_path, _GATEWAY)
    journal.open(_entry(0))
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:10]))
    with capture_logs() as logs:
        journal.open(_entry(1))
        journal.open(_entry(3))
    monkeypatch.undo()
    journal.open(_entry(2))
    assert journal.num_unwritten == 2
    assert [line["log_level"] for line in logs] == ["warning"], "said once, not for every request"
    _die(journal)
    assert _recovered(tmp_path) == [_entry(0), _entry(2)]


_DIES_WITH_REQUESTS = """
import sys
from pathlib import Path
from dataplane.gateway.inflight import InFlightJournal
from tests.dataplane.gateway.test_inflight import _entry
journal = InFlightJournal(Path(sys.argv[1]), "gateway-0-a")
for sequence in range(3):
    journal.open(_entry(sequence))
journal.close("request-1")
print("in flight", flush=True)
sys.stdin.read()
"""


def test_after_kill_9_what_was_in_flight_is_found(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _DIES_WITH_REQUESTS, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"in flight\n"
    assert recover(tmp_path).entries == [], "it still lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stdin.close()
    assert _recovered(tmp_path) == [_entry(0), _entry(2)]


def test_a_lost_record_claims_nothing_but_the_arrival() -> None:
    entry = dataclasses.replace(
        _entry(7), tenant="acme", deployment="chat", replica_ids=("replica-1",), has_written=True
    )
    record = lost_record(entry)
    assert decode_record(encode_record(record)) == record
    assert (record.gateway_id, record.gateway_sequence) == (_GATEWAY, 7)
    assert record.disposition is Disposition.LOST
    assert record.delivery is Delivery.PARTIAL
    assert [event.kind.value for event in record.events] == ["arrived"]
    assert record.cleanup_observability is Observability.UNOBSERVABLE
    assert record.status_code is None
    assert record.num_output_tokens is None, "nobody counted it: that is not zero"
    assert record.output_tokens_observability is Observability.UNOBSERVABLE
    assert record.judgement is None
    assert lost_record(_entry(7)).delivery is Delivery.NONE


def test_a_lost_request_breaks_every_promise_its_class_was_given() -> None:
    terms = ContractTerms(
        boundary=Boundary.SERVER,
        objectives=(
            Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.3),
            Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.999),
        ),
    )
    judgement = lost_record(dataclasses.replace(_entry(0), terms=terms)).judgement
    assert judgement is not None
    assert judgement.in_contract is False
    assert {result.verdict for result in judgement.results} == {Verdict.BAD}
