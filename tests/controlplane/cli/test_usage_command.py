"""`pilothouse usage`, against a control plane that listens."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.replicas import add_replica
from controlplane.store.revisions import apply_documents
from dataplane.engine import ReplicaSpec
from dataplane.lifecycle import Observability
from dataplane.metering import Metered
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered
from tests.controlplane.config_documents import DEPLOYMENT, SERVICE, documents
from tests.controlplane.control_plane_server import serve_control_plane

NOW_NS = time.time_ns() // (60 * 10**9) * 60 * 10**9
HOUR = 3600 * 10**9
WINDOW = (
    *("--since", datetime.fromtimestamp((NOW_NS - 6 * HOUR) / 1e9, UTC).isoformat()),
    *("--until", datetime.fromtimestamp(NOW_NS / 1e9, UTC).isoformat()),
)
PRICED = DEPLOYMENT.replace("replicas: 2", "replicas: 0, replica_price: {per_hour: 3}")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state_dir: Path = tmp_path_factory.mktemp("state")
    with serve_control_plane(state_dir) as (served, opened):
        with opened.config_db.session() as session:
            texts = documents(*SERVICE[:-1], PRICED)
            apply_documents(
                session, texts, author="ann", reason="", clock=lambda: NOW_NS - 50 * HOUR
            )
            spec = ReplicaSpec(
                replica_id="chat-1",
                deployment="chat",
                engine="paged",
                model_name="tiny",
                model_revision="tiny@1",
                engine_config_revision="paged@1",
                artifact="/models/tiny",
            )
            at = NOW_NS - 4 * HOUR
            add_replica(session, spec, spec_digest="d", launcher="local", reason="", now_unix_ns=at)
        with opened.request_db.session() as session:
            records = (took(0, "acme", 1800.0), took(1, "\x1b[2Jglobex", 600.0))
            batch = RecordBatch(gateway_id="g", num_lost=0, records=records)
            store_batch(session, batch, Random(1), ReservoirSizes())
        yield served


def took(sequence: int, tenant: str, seconds: float) -> RequestRecord:
    at = NOW_NS - HOUR
    record = answered(Sample(sequence=sequence, arrived_at_unix_ns=at, tenant=tenant))
    metered = Metered(
        engine_seconds=seconds,
        engine_observability=Observability.OBSERVED,
        kv_block_seconds=seconds * 2,
    )
    return replace(record, metered=metered)


def run(url: str, *arguments: str) -> Result:
    environment = {"PILOTHOUSE_URL": url, "COLUMNS": "140", "NO_COLOR": "1"}
    return CliRunner().invoke(main, ["usage", *arguments], env=environment)


def cells(result: Result, first: str) -> list[str]:
    [line] = [line for line in result.stdout.splitlines() if line.startswith(first)]
    return line.split()


def test_every_tenant_has_a_row_and_all_of_them_one(url: str) -> None:
    result = run(url, "--by", "tenant", *WINDOW)
    assert result.exit_code == 0, result.output
    numbers = ["1", "1", "128", "64", "51", "1,800.0", "3,600.0"]
    acme = cells(result, "acme")
    assert acme[1:8] == numbers
    assert acme[8:] == ["9.00", "USD", "9.00", "USD"]
    assert cells(result, "all")[1:8] == ["2", "2", "256", "128", "102", "2,400.0", "4,800.0"]
    assert cells(result, "chat") == [
        *("chat", "4.00", "2,400.0", "83", "%", "12.00", "USD", "6.00", "USD")
    ]
    assert "\x1b" not in result.output


def test_one_tenant_and_json_are_what_the_api_answers(url: str) -> None:
    answer = json.loads(run(url, "--tenant", "acme", "--by", "class", "-o", "json").stdout)
    [row] = answer["rows"]
    assert (row["request_class"], row["tenant"]) == ("interactive", None)
    assert row["used"]["engine_seconds"] == 1800.0
    assert answer["by"] == ["class"]


def test_a_time_in_which_nothing_was_used_says_so(url: str) -> None:
    result = run(url, "--since", "40h", "--until", "30h")
    assert result.exit_code == 0
    assert "nothing was used in that time" in result.stderr


def test_a_time_that_is_none_is_refused_with_what_is_one(url: str) -> None:
    result = run(url, "--since", "yesterday")
    assert result.exit_code == ExitCode.USAGE
    assert "since: 'yesterday' is neither an age" in result.stderr
