"""`pilothouse simulate` of a Scenario."""

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.console.formatting import short_id
from dataplane.record import RequestRecord, decode_record
from tests.controlplane.control_plane_server import serve_control_plane

EXAMPLE = Path(__file__).parents[3] / "ops/examples/simulate/fleet.yaml"
RECENT = "2026-11-01T00:00:00Z"


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The example, shorter."""
    document = YAML(typ="safe").load(EXAMPLE)
    document["spec"]["duration"] = "8s"
    document["spec"]["starts_at"] = RECENT
    document["spec"]["replicas"]["cold_start"] = {"load": "2s"}
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(document))
    return path


def summary(*arguments: str | Path) -> dict[str, Any]:
    result = simulate(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def read_records(path: Path) -> list[RequestRecord]:
    return [decode_record(line) for line in path.read_bytes().splitlines()]


def test_the_table_tells_classes_latencies_and_replicas(file: Path) -> None:
    result = simulate(file)
    assert result.exit_code == 0, result.output
    for word in ("evening, seed 1", "interactive", "GOODPUT/S", "TTFT", "replica-3", "checksum"):
        assert word in result.stdout


def test_a_fleet_of_two_phases_tells_what_went_between_them(file: Path) -> None:
    document = json.loads(file.read_text())
    document["spec"]["replicas"]["start_cold"] = 0
    document["spec"]["replicas"]["phases"] = {
        "prefill": 1,
        "decode": 3,
        "transfer": {"gigabits_per_second": 25, "bytes_per_token": 131072},
    }
    file.write_text(json.dumps(document))
    told = summary(file)
    assert [each["phase"] for each in told["replicas"]] == ["prefill", *["decode"] * 3]
    transfer = told["transfer"]
    assert transfer["transfers"] > 100
    num_bits = transfer["gigabits"] * 1e9 / transfer["transfers"]
    assert 100 < num_bits / 8 / 131072 < 4000  # a prompt
    assert transfer["link_wait"] >= num_bits / 25e9
    text = simulate(file).stdout
    assert "serving, prefill" in text
    assert f"KV between phases: {transfer['transfers']} transfers" in text


def test_a_hang_without_an_end_leaves_requests_in_flight_and_keeps_all_that_ended(
    file: Path, tmp_path: Path
) -> None:
    document = json.loads(file.read_text())
    document["spec"]["replicas"]["start_cold"] = 0
    document["spec"]["clients"] = {}
    for arrivals in document["spec"]["arrivals"]:
        arrivals.pop("clients", None)
    document["spec"]["faults"] = [{"fault": "hung_replica", "replica": "replica-1", "at": "2s"}]
    file.write_text(json.dumps(document))
    result = simulate(file, "--records", tmp_path / "records.jsonl", "-o", "json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    in_flight = sum(each["in_flight"] for each in told["classes"])
    offered = sum(each["offered"] for each in told["classes"])
    assert 0 < in_flight < offered / 2
    assert told["waits"] == ["replica-1 is stalled"]
    assert len(read_records(tmp_path / "records.jsonl")) == offered - in_flight
    assert f"warning: {in_flight} requests are in flight still" in result.stderr
    assert "replica-1 is stalled" in result.stderr
    assert "an end (for), or clients that leave" in result.stderr
    assert "IN FLIGHT" in simulate(file).stdout


def test_json_tells_the_same_as_the_records(file: Path, tmp_path: Path) -> None:
    told = summary(file, "--records", tmp_path / "out.jsonl")
    records = read_records(tmp_path / "out.jsonl")
    assert len(records) == sum(each["offered"] for each in told["classes"]) > 100
    interactive = next(c for c in told["classes"] if c["request_class"] == "interactive")
    judged = [
        record.judgement.in_contract
        for record in records
        if record.judgement is not None and record.judgement.in_contract is not None
    ]
    assert interactive["attainment"] == sum(judged) / len(judged)
    ttfts = sorted(
        record.latencies.server.ttft
        for record in records
        if record.request_class == "interactive" and record.latencies.server.ttft is not None
    )
    assert interactive["ttft"]["p50"] == pytest.approx(ttfts[(len(ttfts) - 1) // 2], abs=1e-9)


def test_records_change_nothing_and_a_sample_is_a_part_of_all(file: Path, tmp_path: Path) -> None:
    plain = summary(file)
    assert summary(file, "--records", tmp_path / "all.jsonl") == plain
    sampled = summary(file, "--records", tmp_path / "some.jsonl", "--sample", "20")
    assert sampled == plain
    everything = {record.request_id: record for record in read_records(tmp_path / "all.jsonl")}
    some = read_records(tmp_path / "some.jsonl")
    assert len(some) == 20
    assert all(everything[record.request_id] == record for record in some)


def test_the_same_seed_gives_the_same_bytes_in_another_process(file: Path, tmp_path: Path) -> None:
    told = []
    for number, hash_seed in enumerate(("1", "2024")):
        out = tmp_path / f"{number}.jsonl"
        command = [sys.executable, "-m", "controlplane.cli", "simulate", str(file), "-o", "json"]
        done = subprocess.run(
            [*command, "--records", str(out)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        told.append((done.stdout, out.read_bytes()))
    assert told[0] == told[1]
    assert len(told[0][1]) > 10_000


def test_another_seed_gives_other_requests(file: Path) -> None:
    before = summary(file)
    file.write_text(file.read_text().replace('"seed": 1', '"seed": 2'))
    assert summary(file)["checksum"] != before["checksum"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_control_plane(tmp_path_factory.mktemp("simulated")) as (url, _):
        yield url


def test_a_control_plane_takes_the_records_once(file: Path, url: str) -> None:
    first = simulate(file, "--send", url)
    assert first.exit_code == 0, first.output
    again = simulate(file, "--send", url)
    num_offered = sum(each["offered"] for each in summary(file)["classes"])
    assert f"{num_offered} records sent\n" in first.stderr
    assert f"0 records sent, {num_offered} were there\n" in again.stderr
    page = httpx.get(f"{url}/api/v1/requests", params={"deployment": "evening"}).json()
    details = [
        httpx.get(f"{url}/api/v1/requests/{r['request_id']}").json() for r in page["requests"]
    ]
    kept = next(detail for detail in details if detail["record"] is not None)
    assert kept["record"]["engine"] == "simulator"
    traced = CliRunner().invoke(main, ["trace", kept["request"]["request_id"], "--url", url])
    assert traced.exit_code == 0, traced.output
    assert "prefill" in traced.stdout


def without_start(file: Path, name: str) -> None:
    """Another scenario, which does not say when it starts."""
    document = json.loads(file.read_text())
    del document["spec"]["starts_at"]
    document["metadata"]["name"] = name
    file.write_text(json.dumps(document))


def test_what_is_sent_without_a_start_ends_now_and_is_there_to_be_seen(
    file: Path, url: str
) -> None:
    without_start(file, "moved")
    before = time.time()
    sent = simulate(file, "--send", url)
    assert sent.exit_code == 0, sent.output
    starts_at = re.findall(r"add --starts-at (\S+)\n", sent.stderr)
    assert len(starts_at) == 1
    begin = datetime.fromisoformat(starts_at[0]).timestamp()
    assert before - 8 - 1 <= begin <= time.time() - 8
    assert "warning" not in sent.stderr
    page = httpx.get(f"{url}/api/v1/requests", params={"deployment": "moved"}).json()
    assert page["requests"]
    again = simulate(file, "--send", url, "--starts-at", starts_at[0])
    assert re.search(r"^0 records sent, [1-9]\d* were there$", again.stderr, re.MULTILINE)
    assert "moved to end now" not in again.stderr


def test_a_plain_run_reads_no_clock_and_starts_where_it_is_told(file: Path, tmp_path: Path) -> None:
    without_start(file, "plain")
    out = tmp_path / "out.jsonl"
    simulate(file, "--records", out)
    new_year = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert 0 <= read_records(out)[0].arrived_at_unix_ns / 1e9 - new_year < 8
    simulate(file, "--records", out, "--starts-at", "2026-03-01T00:00:00Z")
    march = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
    assert 0 <= read_records(out)[0].arrived_at_unix_ns / 1e9 - march < 8
    wrong = simulate(file, "--starts-at", "yesterday")
    assert wrong.exit_code == ExitCode.USAGE
    assert "write it as 2026-01-01T00:00:00Z" in wrong.stderr


def test_simulated_requests_are_told_apart_and_found_by_the_short_ids_that_tables_show(
    file: Path, url: str
) -> None:
    simulate(file, "--send", url)
    page = httpx.get(f"{url}/api/v1/requests", params={"deployment": "evening"}).json()["requests"]
    shown = [short_id(each["request_id"]) for each in page]
    assert len(set(shown)) == len(page) > 20
    traced = CliRunner().invoke(main, ["trace", shown[0], "--url", url])
    assert traced.exit_code == 0, traced.output
    assert page[0]["request_id"] in traced.stdout


def test_records_older_than_what_is_kept_are_warned_of(file: Path, url: str) -> None:
    without_start(file, "old")
    sent = simulate(file, "--send", url, "--starts-at", "2024-01-01T00:00:00Z")
    assert "keeps requests for 35 days" in sent.stderr
    assert "later moment" in sent.stderr


def test_requests_ahead_of_now_are_warned_of_and_sent(file: Path, url: str) -> None:
    without_start(file, "ahead")
    year = datetime.now(UTC).year + 1
    sent = simulate(file, "--send", url, "--starts-at", f"{year}-12-31T23:59:55Z")
    assert sent.exit_code == 0, sent.output
    assert (
        f"requests lie ahead of now: the run is from {year}-12-31T23:59:55Z to "
        f"{year + 1}-01-01T00:00:03Z" in sent.stderr
    )
    assert re.search(r"^[1-9]\d* records sent$", sent.stderr, re.MULTILINE)


def test_calls_of_a_trace_behind_the_end_are_counted_and_said(file: Path, tmp_path: Path) -> None:
    document = json.loads(file.read_text())
    document["spec"]["arrivals"] = [
        {"name": "again", "replay": {"file": "evening.jsonl", "speed": 2}, "start": "1s"}
    ]
    file.write_text(json.dumps(document))
    call = {"prompt_tokens": 10, "output_tokens": 3}
    calls = [
        {**call, "at": 100},
        {**call, "at": 113.9},  # 7.95 s after the run begins
        {**call, "at": 114, "id": "late"},
        {**call, "at": 115, "id": "turn", "after": "late"},
        {**call, "at": 101, "after": "turn"},
        {**call, "at": 130},
    ]
    (tmp_path / "evening.jsonl").write_text("\n".join(map(json.dumps, calls)))
    result = simulate(file, "-o", "json")
    assert result.exit_code == 0, result.output
    assert sum(each["offered"] for each in json.loads(result.stdout)["classes"]) == 2
    assert "warning: 4 of 6 calls of evening.jsonl are left out" in result.stderr
    assert "comes after 16 s; raise duration above that" in result.stderr


@pytest.mark.parametrize("kind", ["scenario", "Scenarios"])
def test_a_kind_that_is_almost_scenario_is_told_so(file: Path, kind: str) -> None:
    file.write_text(file.read_text().replace('"Scenario"', f'"{kind}"'))
    result = simulate(file)
    assert result.exit_code == ExitCode.USAGE
    assert f"kind: nothing of the kind '{kind}' is simulated; did you mean Scenario?" in (
        result.stderr
    )
    assert "1 problem; nothing was simulated" in result.stderr


def test_another_kind_is_refused_as_nothing_that_is_simulated(file: Path) -> None:
    file.write_text(file.read_text().replace('"Scenario"', '"Deployment"'))
    result = simulate(file)
    assert "nothing of the kind 'Deployment' is simulated. Valid: Scenario" in result.stderr


def test_an_edited_scenario_makes_new_records(file: Path, url: str) -> None:
    without_start(file, "edited")
    start = datetime.now(UTC).strftime("%Y-%m-%dT00:00:00Z")
    first = simulate(file, "--send", url, "--starts-at", start)
    assert " were there" not in first.stderr
    file.write_text(file.read_text().replace('"poisson": "12/s"', '"poisson": "11/s"'))
    edited = simulate(file, "--send", url, "--starts-at", start)
    assert re.search(r"^[1-9]\d* records sent$", edited.stderr, re.MULTILINE)


def test_no_control_plane_is_told_as_such(file: Path) -> None:
    result = simulate(file, "--send", "http://127.0.0.1:9")
    assert result.exit_code == ExitCode.UNREACHABLE


def test_mistakes_end_with_their_places(file: Path) -> None:
    file.write_text(file.read_text().replace('"poisson": "12/s"', '"poisson": 12'))
    result = simulate(file)
    assert result.exit_code == ExitCode.USAGE
    assert "spec.arrivals[0].poisson: 12 is not a rate" in result.stderr
    assert "nothing was simulated" in result.stderr


def test_what_belongs_to_a_scenario_is_refused_for_another_file() -> None:
    result = simulate(EXAMPLE.parent / "chunked-prefill.yaml", "--sample", "3")
    assert result.exit_code == ExitCode.USAGE
    assert "are for a Scenario" in result.stderr


def test_records_that_cannot_be_written_are_told(file: Path, tmp_path: Path) -> None:
    result = simulate(file, "--records", tmp_path / "missing" / "out.jsonl")
    assert result.exit_code == ExitCode.USAGE
    assert f"there is no folder {tmp_path}/missing; make it with `mkdir -p" in result.stderr
    assert not (tmp_path / "missing").exists()


def test_records_for_which_there_is_no_room_are_a_failure(file: Path, tmp_path: Path) -> None:
    arguments = [file, "--records", tmp_path / "records.jsonl"]
    done = subprocess.run(
        [sys.executable, "-m", "controlplane.cli", "simulate", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)),
    )
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith("Error: cannot write ")
    assert done.stderr.count("\n") == 1
