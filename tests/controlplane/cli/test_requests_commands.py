"""`pilothouse requests` and `pilothouse trace`, against a control plane that listens."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner, Result

from controlplane.cli import main
from ops.sample_requests import Sample, answered, failed, inferred, preempted
from ops.seeded_console import close_app, create_app, store

NOW_NS = time.time_ns()
RECORDS = {
    "answered": answered(Sample(sequence=0, arrived_at_unix_ns=NOW_NS)),
    "failed": failed(Sample(sequence=1, arrived_at_unix_ns=NOW_NS - 10**9)),
    "inferred": inferred(Sample(sequence=2, arrived_at_unix_ns=NOW_NS - 2 * 10**9)),
    "preempted": preempted(
        Sample(sequence=3, arrived_at_unix_ns=NOW_NS - 3 * 10**9, num_output_tokens=300)
    ),
    "hostile": replace(
        answered(Sample(sequence=4, arrived_at_unix_ns=NOW_NS - 4 * 10**9)),
        tenant="\x1b[2J[red]x[/red]",
    ),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("state")
    app = create_app(directory)
    store(app, list(RECORDS.values()))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()
    close_app(app)


def run(url: str, *arguments: str, columns: int = 80) -> Result:
    environment = {"PILOTHOUSE_URL": url, "COLUMNS": str(columns), "NO_COLOR": "1"}
    return CliRunner().invoke(main, list(arguments), env=environment)


def test_requests_lists_the_newest_first(url: str) -> None:
    result = run(url, "requests")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines[1:]] == [
        record.request_id[:10] for record in RECORDS.values()
    ]
    assert "◆ missed" in lines[2]


def test_requests_as_json_is_what_the_api_answers(url: str) -> None:
    result = run(url, "requests", "--disposition", "error", "-o", "json")
    assert [each["disposition"] for each in json.loads(result.stdout)["requests"]] == ["error"]


def test_a_list_that_was_cut_says_so(url: str) -> None:
    result = run(url, "requests", "--limit", "1")
    assert "there are more" in result.stderr


def test_nothing_that_matches_is_said_and_is_no_error(url: str) -> None:
    result = run(url, "requests", "--tenant", "nobody")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no request matches" in result.stderr


def test_trace_takes_the_beginning_of_an_id_and_fits_80_columns(url: str) -> None:
    result = run(url, "trace", RECORDS["answered"].request_id[:9])
    assert result.exit_code == 0
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= 80
    for phase in ("queue", "prefill", "decode", "delivery", "cleanup"):
        assert f"\n{phase} " in result.stdout
    assert "2 chunks, 64 of 128 tokens reused" in result.stdout
    assert "\x1b" not in result.stdout


def test_trace_says_what_was_inferred_and_what_nobody_saw(url: str) -> None:
    result = run(url, "trace", RECORDS["inferred"].trace.trace_id)
    assert "162 ms inferred" in result.stdout
    assert "░" in result.stdout
    assert "Cleanup is unobservable" in result.stdout


def test_trace_crosses_out_the_time_a_request_was_preempted(url: str) -> None:
    result = run(url, "trace", RECORDS["preempted"].request_id)
    decode = next(line for line in result.stdout.splitlines() if line.startswith("decode"))
    assert "╳" in decode
    assert decode.index("█") < decode.index("╳") < decode.rindex("█")


def test_trace_as_json_holds_the_full_record(url: str) -> None:
    result = run(url, "trace", RECORDS["failed"].request_id, "-o", "json")
    assert json.loads(result.stdout)["record"]["disposition"] == "error"


def test_a_tenant_cannot_talk_to_the_terminal(url: str) -> None:
    for arguments in (["requests"], ["trace", RECORDS["hostile"].request_id]):
        result = run(url, *arguments, columns=120)
        assert "\x1b" not in result.stdout
    assert "[red]x[/red]" in result.stdout


def test_an_unknown_id_ends_with_4_and_the_reason(url: str) -> None:
    result = run(url, "trace", "zzz")
    assert result.exit_code == 4
    assert "no request or trace 'zzz' is known" in result.stderr


def test_a_wrong_since_ends_with_2_and_names_what_is_valid(url: str) -> None:
    result = run(url, "requests", "--since", "yesterday")
    assert result.exit_code == 2
    assert "30m" in result.stderr


def test_without_a_control_plane_it_says_how_to_start_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    result = run(f"http://127.0.0.1:{port}", "trace", "abc")
    assert result.exit_code == 5
    assert "pilothouse serve" in result.stderr
