"""`pilothouse requests` and `pilothouse trace`, against a control plane that listens."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner, Result

from controlplane.cli import main
from ops.sample_requests import (
    Sample,
    answered,
    failed,
    inferred,
    lost,
    preempted,
    rejected,
    retried,
)
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
    "lost": lost(Sample(sequence=5, arrived_at_unix_ns=NOW_NS - 5 * 10**9)),
    "rejected": rejected(Sample(sequence=6, arrived_at_unix_ns=NOW_NS - 6 * 10**9)),
    "retried": retried(Sample(sequence=7, arrived_at_unix_ns=NOW_NS - 7 * 10**9)),
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


def test_output_that_nobody_counted_is_never_told_as_a_number(url: str) -> None:
    request_id = RECORDS["lost"].request_id
    listed = run(url, "requests", "--disposition", "lost")
    assert "128/?" in listed.output
    answer = json.loads(run(url, "requests", "--disposition", "lost", "-o", "json").output)
    assert [each["num_output_tokens"] for each in answer["requests"]] == [None]
    assert "128 in, unknown out" in run(url, "trace", request_id).output
    traced = json.loads(run(url, "trace", request_id, "-o", "json").output)
    assert traced["request"]["num_output_tokens"] is None


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


def test_all_pages_are_walked_as_json_lines(url: str) -> None:
    result = run(url, "requests", "--all", "-o", "json", "--since", "1d")
    assert result.exit_code == 0
    ids = [json.loads(line)["request_id"] for line in result.stdout.splitlines()]
    assert ids == [record.request_id for record in RECORDS.values()]
    assert result.stderr == "", "no bar where nobody watches"


def test_slo_misses_are_those_out_of_contract(url: str) -> None:
    missed, same = (
        json.loads(run(url, "requests", option, "-o", "json").stdout)["requests"]
        for option in ("--slo-miss", "--out-of-contract")
    )
    assert missed == same
    assert {each["in_contract"] for each in missed} == {False}


def test_from_and_to_are_a_window(url: str) -> None:
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(NOW_NS // 10**9 - 3))
    shown = run(url, "requests", "--from", start, "--to", "0s", "-o", "json")
    before = run(url, "requests", "--to", start, "-o", "json")
    ids = {each["request_id"] for each in json.loads(shown.stdout)["requests"]}
    earlier = {each["request_id"] for each in json.loads(before.stdout)["requests"]}
    assert ids | earlier == {record.request_id for record in RECORDS.values()}
    assert ids & earlier == set()
    assert earlier


@pytest.mark.parametrize(
    ("since", "until"),
    [("1h", "2h"), ("0s", "1s"), ("2026-11-02", "2026-11-01"), ("1m", "2020-01-01T00:00Z")],
)
@pytest.mark.parametrize(
    "command",
    [["requests"], ["requests", "--all", "-o", "json"], ["audit"], ["fit", "records.jsonl"]],
    ids=lambda words: " ".join(words),
)
def test_a_window_that_ends_before_it_begins_is_wrong_input(
    url: str, command: list[str], since: str, until: str
) -> None:
    result = run(url, *command, "--since", since, "--until", until)
    assert result.exit_code == 2
    assert f"'{since}' is later than until, '{until}'" in " ".join(result.stderr.split())
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--live", "--all"], "leave out --all"),
        (["--live", "--slo-miss"], "--slo-miss is about requests that ended"),
        (["--live", "--since", "1h"], "--since is about requests that ended"),
        (["--all"], "add -o json"),
        (["--watch", "-o", "json"], "--watch is for people"),
        (["--watch"], "--watch needs a terminal"),
        (["--slo-miss", "--in-contract"], "exclude each other"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_contradict_each_other_are_a_usage_error(
    url: str, arguments: list[str], said: str
) -> None:
    result = run(url, "requests", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_watch_shows_the_list_on_a_terminal_until_ctrl_c(url: str) -> None:
    shown, exit_code = _in_a_terminal(url, "requests", "--watch", "--interval", "0.2")
    assert RECORDS["answered"].request_id[:10] in shown
    assert "Ctrl-C ends" in shown
    assert exit_code == 0


def _in_a_terminal(url: str, *arguments: str) -> tuple[str, int]:
    """What a terminal shows until the list was drawn twice, and how Ctrl-C ends it."""
    master, slave = pty.openpty()
    environment = {**os.environ, "PILOTHOUSE_URL": url, "TERM": "xterm", "COLUMNS": "120"}
    command = [sys.executable, "-m", "controlplane.cli", *arguments]
    with subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C, and what it starts would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(slave)
        shown = ""
        while shown.count("Ctrl-C ends") < 2 and process.poll() is None:
            shown += os.read(master, 65536).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        exit_code = process.wait(timeout=60)
    os.close(master)
    return shown, exit_code


def test_a_rejected_request_is_explained_with_who_decided_on_what_and_what_else(url: str) -> None:
    told = run(url, "explain", RECORDS["rejected"].request_id, columns=200).output
    assert "Policy chat@12, in config version 31 at gateway-0-9c1f, refused it" in told
    assert "With waiting of class below 64 requests it had been let in." in told
    assert "The oldest that it used was 2.0 s old: drain rate" in told
    assert re.search(r"waiting of class +64 requests +64 requests +gateway +counted then +◆", told)


def test_every_attempt_is_explained_with_the_replicas_it_was_chosen_among(url: str) -> None:
    told = run(url, "explain", RECORDS["retried"].request_id[:12], columns=200).output
    assert "Attempt 1: Routing policy prefix chose" in told
    assert "Attempt 2: Routing policy prefix chose" in told
    assert "it failed this request" in told
    assert "reported 4 sequences (not used, 14.2 s old)" in told
    assert "and 996 more" in told


def test_what_a_lost_request_was_decided_on_is_gone_and_said_to_be(url: str) -> None:
    told = run(url, "explain", RECORDS["lost"].request_id).output
    assert "what it had decided went with it" in told


def test_an_explanation_is_read_by_programs_and_of_an_unknown_request_there_is_none(
    url: str,
) -> None:
    answer = json.loads(run(url, "explain", RECORDS["rejected"].request_id, "-o", "json").output)
    assert answer["admission"]["kind"] == "queue_full"
    unknown = run(url, "explain", "0123456789abcdef")
    assert unknown.exit_code != 0
    assert "0123456789abcdef" in unknown.output


def test_a_trace_says_in_a_sentence_what_was_decided(url: str) -> None:
    traced = run(url, "trace", RECORDS["retried"].request_id, columns=200).output
    assert "let it in as class interactive" in traced
    assert "routing 2" in traced
