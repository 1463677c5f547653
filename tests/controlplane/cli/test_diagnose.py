"""`pilothouse diagnose`: a case, files, standard input, a running engine; words and JSON."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main

CASES = Path(__file__).parents[2] / "incidents"
THRASH = str(CASES / "cache-thrash-no-watermark.yaml")
UNDECIDED = str(CASES / "cannot-tell-pending-low-kv-v0.yaml")
LOG = """\
INFO 03-02 10:02:00 [gpu_model_runner.py:1386] Graph capturing finished in 22 secs, took 0.64 GiB
ERROR 03-02 10:02:01 [core.py:330] torch.OutOfMemoryError: CUDA out of memory.
ERROR 03-02 10:02:01 [core.py:330] RuntimeError: CUDA out of memory occurred when warming up \
sampler with 1024 dummy requests. Please try lowering `max_num_seqs`.
"""


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["diagnose", *arguments], input=stdin)


def told(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    result = run(*arguments, "-o", "json", stdin=stdin)
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_a_case_is_answered_in_words_the_answer_first_and_the_way_on_last() -> None:
    result = run("--case", THRASH)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith("cache.thrash (likely): Running requests are preempted")
    assert "371 -> 603 in 60 s" in result.output
    assert lines[-1] == "Runbook: pilothouse runbook cache.thrash"


def test_programs_get_the_mechanism_the_findings_and_what_is_needed() -> None:
    answer = told("--case", THRASH)
    assert (answer["mechanism"], answer["confidence"]) == ("cache.thrash", "likely")
    first = answer["findings"][0]
    assert {
        "mechanism", "confidence", "evidence", "against", "needs", "remedy", "runbook",
    } <= first.keys()  # fmt: skip
    assert first["mechanism"] == "cache.thrash"
    values = {value["name"]: value for value in first["values"]}
    usage = values["vllm:kv_cache_usage_perc"]
    assert (usage["value"], usage["unit"], usage["source"]) == (0.993, "ratio", "metrics")
    assert (usage["at"], usage["age_seconds"]) == (60, 0)


def test_what_cannot_be_told_says_what_would_settle_it() -> None:
    answer = told("--case", UNDECIDED)
    assert (answer["mechanism"], answer["confidence"]) == ("cannot_tell", None)
    assert any("adapter" in need for need in answer["needs"])
    said = run("--case", UNDECIDED).output
    assert said.startswith("cannot_tell: ")
    assert "To settle it, find out" in said


def test_a_log_is_read_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "engine.log"
    file.write_text(LOG)
    assert told(str(file))["mechanism"] == "oom.warmup"
    assert told("-", stdin=LOG)["mechanism"] == "oom.warmup"


@contextmanager
def engine(page: Any) -> Iterator[str]:
    """A server whose /metrics is `page(number of the scrape)`."""
    number = count()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_it = self.path == "/metrics"
            self.send_response(200 if is_it else 404)
            self.end_headers()
            if is_it:
                self.wfile.write(page(next(number)).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def thrashing(number: int) -> str:
    return f"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0"}} 40
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0"}} 6
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0"}} 0.998
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{engine="0"}} {100 + 9 * number}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0"}} {5000 + 300 * number}
# TYPE vllm:request_success_total counter
vllm:request_success_total{{engine="0",finished_reason="stop"}} {50 + number}
"""


def test_a_running_engine_is_watched_and_named() -> None:
    with engine(thrashing) as url:
        answer = told(url, "--for", "1.5s", "--every", "0.25s")
    assert answer["mechanism"] == "cache.thrash"
    assert answer["window"]["end"] - answer["window"]["start"] > 1


def test_who_has_seen_enough_gets_the_answer_to_what_was_seen() -> None:
    is_watched = threading.Event()

    def page(number: int) -> str:
        if number > 8:
            is_watched.set()
        return thrashing(number)

    command = ["-m", "controlplane.cli", "diagnose", "--for", "10m", "--every", "0.2s"]
    with engine(page) as url:
        watching = subprocess.Popen(
            [sys.executable, *command, "-o", "json", url], stdout=subprocess.PIPE, text=True
        )
        assert is_watched.wait(60)
        watching.send_signal(signal.SIGINT)
        said, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert json.loads(said)["mechanism"] == "cache.thrash"


def test_where_nothing_answers_it_says_what_was_tried(tmp_path: Path) -> None:
    with engine(lambda _: "") as url:
        pass
    result = run(url, "--for", "0.5s", "-o", "json")
    assert result.exit_code == 5
    assert f"{url}/metrics" in result.stderr
    answer = json.loads(result.stdout)
    assert answer["mechanism"] == "cannot_tell"
    assert any("connection refused" in each for each in answer["findings"][0]["evidence"])
    assert any("why it ended" in need for need in answer["needs"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing given"),
        (["http://127.0.0.1:1", __file__], "URLs and FILEs given"),
        (["--case", THRASH, __file__], "FILEs and --case given"),
        (["--case", "/nowhere/x.yaml"], "/nowhere/x.yaml"),
        (["/nowhere/engine.log"], "/nowhere/engine.log"),
        (["http://127.0.0.1:1", "--for", "0s"], "longer than 0"),
        (["http://127.0.0.1:1", "--for", "5s", "--every", "1m"], "longer than the watch"),
        (["http://127.0.0.1:1", "--every", "90s"], "longer than the watch"),
        (["--case", THRASH, "--plugin", "nobodys"], "no plugin 'nobodys'"),
        (["--case", THRASH, "--plugin", "local"], "brings no rules"),
        (["--case", THRASH, "--probe"], "--probe belongs to URLs"),
        ([__file__, "--selector", "a=1"], "--selector belongs to --prometheus"),
        (["--case", THRASH, "--engine-key-file", "/nowhere/key"], "/nowhere/key"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_place(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.output


def test_a_broken_case_names_its_place(tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text("id: x\ninput: [{kind: smell, text: burnt}]\n")
    result = run("--case", str(file))
    assert result.exit_code == 2
    assert str(file) in result.output
    assert "smell" in result.output


@pytest.mark.parametrize(
    "address", ["http://[::1", "http://127.0.0.1:99999", "ftp://host:21", "http://"]
)
def test_what_is_no_address_is_said_in_one_line(address: str) -> None:
    result = run(address)
    assert result.exit_code == 2, result.output
    assert f"{address} is no address of an engine" in result.output


def test_a_password_in_an_address_stands_in_no_message() -> None:
    with engine(lambda _: "") as url:
        pass
    result = run(url.replace("//", "//user:secret@"), "--for", "1s")
    assert result.exit_code == 5
    assert "secret" not in result.output
    assert "secret" not in run("ftp://user:secret@host:21").output


def test_pages_that_were_copied_have_no_times_and_a_number_beyond_any_is_said_so(
    tmp_path: Path,
) -> None:
    pages = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for number, page in enumerate(pages):
        page.write_text(thrashing(number).replace(" 5300\n", " 1e308\n"))
    answer = told(*map(str, pages))
    kinds = {each["kind"] for each in answer["telemetry"]}
    assert "time_guessed" in kinds
    assert answer["mechanism"] != "telemetry.misread"
