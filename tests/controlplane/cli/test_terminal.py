"""What others chose never commands the terminal, in no command and no output form."""

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controlplane.cli import main
from controlplane.cli.config_output import as_yaml
from controlplane.cli.terminal import continued, printable, printable_lines, table
from controlplane.specs.yaml_reader import read_yaml
from ops.seeded_console import close_app, create_app, seed

ESCAPE = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e\u2028[red]x[/red]"
HOSTILE = st.text(
    st.characters(blacklist_categories=["Cs"]) | st.sampled_from("\x1b\x07\x9b\r\n\u202e[]"),
    max_size=40,
)
CASES = [
    ["get"],
    ["get", "-o", "wide"],
    ["get", "-o", "json"],
    ["get", "-o", "yaml"],
    ["get", "replicas", "-o", "wide"],
    ["get", "gateways", "-o", "wide"],
    ["get", "gateways", "-o", "json"],
    ["get", "events"],
    ["get", "overrides"],
    ["override", "list", "--all"],
    ["get", "revisions", "policy", "chat"],
    ["describe", "deployment", "chat"],
    ["describe", "policy", "chat"],
    ["diff", "policy", "chat", "1", "2"],
    ["requests"],
    ["requests", "-o", "json"],
    ["requests", "--all", "-o", "json"],
    ["requests", "--live"],
    ["trace", "abc"],
    ["trace", "abc", "-o", "json"],
]
EVERY_CASE = pytest.mark.parametrize("arguments", CASES, ids=" ".join)


class HostileServer:
    """Answers as a control plane does, but that every text in it is `text`."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.text = ""
        self.url = ""
        self.status = 200

    def answer(self, path: str) -> Any:
        if self.status != 200:
            return {"detail": self.text}
        known = max((each for each in self.answers if path.startswith(each)), key=len)
        return self._infected(self.answers[known])

    def _infected(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: None if key == "next" else self._infected(each) for key, each in value.items()
            }
        if isinstance(value, list):
            return [self._infected(each) for each in value]
        return self.text if isinstance(value, str) else value


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a real control plane answers, by path."""
    app = create_app(tmp_path_factory.mktemp("seeded"))
    now = time.time_ns()
    seed(app, now, num_requests=30)
    client = TestClient(app, base_url="http://127.0.0.1")
    page = client.get("/api/v1/requests?limit=30").json()
    kept = [each["request_id"] for each in page["requests"]]
    details = (client.get(f"/api/v1/requests/{request_id}").json() for request_id in kept)
    detail = max(details, key=lambda each: len(each["events"]))
    close_app(app)
    revision = {
        "kind": "AdmissionPolicy", "name": "chat", "number": 2, "revision": "chat@2",
        "digest": "d", "author": "a", "reason": "r", "created_at_unix_ns": now,
        "document": {"kind": "AdmissionPolicy", "spec": {"classes": [{"name": "x"}], "y": "z"}},
        "deployment": {
            "desired": {"model": "m", "engine_config": "e", "policy": "p", "contract": "c"},
            "replicas": 1, "launcher": "l", "generation": 1, "observed_generation": 1,
        },
    }  # fmt: skip
    replica = {
        "replica_id": "r", "deployment": "d", "engine": "e", "model_revision": "m", "state": "s",
        "reason": "r", "stage": "s", "pid": 1, "address": "a", "metrics_address": "m",
        "start_stages": {"load": 1.0}, "probed_at_unix_ns": None, "observed_at_unix_ns": now,
    }  # fmt: skip
    stray = {
        "kind": "k", "why": "w", "found_at_unix_ns": now, "seen_at_unix_ns": now, "error": "e",
        "ended_at_unix_ns": None,
        "process": {
            "pid": 1, "replica_id": "r", "fencing_token": 1, "command": "c", "ports": [1],
            "resident_bytes": 1, "device_bytes": None,
        },
    }  # fmt: skip
    moved = {
        "replica_id": "r", "deployment": "d", "state": "s", "reason": "r", "at_unix_ns": now
    }  # fmt: skip
    counts = dict.fromkeys(
        ("arrived", "invalid", "undecided", "rejected", "admitted", "active", "finished"), 0
    )
    gateway = {
        "gateway_id": "g", "name": "n", "address": "a", "started_at_unix_ns": now,
        "reported_at_unix_ns": now, "snapshot_version": 1, "snapshot_error": "e",
        "counts": counts, "num_queued": 0, "oldest_queued_seconds": None,
        "num_records_spooled": 0, "num_records_lost": 0, "age_seconds": 1.0,
        "replicas": [
            {"replica_id": "r", "is_connected": False, "num_outstanding": 0, "error": "e"}
        ],
    }  # fmt: skip
    change = {
        "generation": 1, "revision": "r", "author": "a", "reason": "r", "at_unix_ns": now,
        "desired": revision["deployment"]["desired"],  # type: ignore[index]
    }  # fmt: skip
    in_flight = {
        "request_id": "r", "trace_id": "t", "state": "s", "age_seconds": 1.0, "waits_for": "w",
        "tenant": "t", "request_class": "c", "deployment": "d", "replica_id": "r",
    }  # fmt: skip
    live = {
        "gateways": [{"name": "g", "at_unix_ns": None, "error": "e", "num_requests": None}],
        "requests": [in_flight],
    }
    failed = {"at_unix_ns": now, "name": "g", "role": "gateway", "what": "w", "reason": "r"}
    override = {
        "override_id": "o", "kind": "bypass", "deployment": "d", "effect": "e", "policy": "p",
        "replicas": ["r"], "request_class": "c", "tenant": "t", "arm": "m", "reason": "r",
        "created_by": "a", "created_at_unix_ns": now, "until_unix_ns": now, "is_in_force": False,
        "ended_at_unix_ns": now, "ended_by": "b", "end_reason": "e", "gateways": ["g"],
        "missing_gateways": ["h"],
    }  # fmt: skip
    rollout = {
        "number": 1, "deployment": "d", "state": "s", "reason": "r", "step": 1, "num_steps": 2,
        "share": 0.5, "is_in_shadow": False, "created_by": "a", "created_reason": "c",
        "created_at_unix_ns": now, "ended_at_unix_ns": now,
        "changes": [
            {
                "role": "r", "kind": "k", "name": "n", "from_number": 1, "to_number": 2,
                "to_name": "o", "text": "t",
            }
        ],
    }  # fmt: skip
    silence = {
        "silence_id": "i", "kind": "silence", "what": "w", "deployment": "d",
        "request_class": "c", "objective": "o", "severity": "s", "reason": "r",
        "created_by": "a", "created_at_unix_ns": now, "from_unix_ns": now - 1,
        "until_unix_ns": now, "state": "ended", "over_at_unix_ns": now, "ended_by": "b",
        "end_reason": "e",
    }  # fmt: skip
    one = "/api/v1/config/AdmissionPolicy/chat"
    return {
        "/api/v1/config": [revision],
        "/api/v1/deployments": {"deployments": [{"name": "n", "hold": "h"}]},
        one: revision,
        f"{one}/revisions": [revision, {**revision, "number": 1}],
        "/api/v1/config/Deployment/chat": revision,
        "/api/v1/config/Deployment/chat/revisions": [revision],
        "/api/v1/config/Deployment/": [revision],
        "/api/v1/deployments/": [change],
        "/api/v1/replicas": {
            "as_of_unix_ns": now,
            "replicas": [replica],
            "history": [moved],
            "strays": [stray],
            "strays_unseen": {"l": "w"},
        },
        "/api/v1/gateways": {"gateways": [gateway]},
        "/api/v1/processes/history": {"history": [failed]},
        "/api/v1/overrides": {"as_of_unix_ns": now, "overrides": [override]},
        "/api/v1/rollouts": {"as_of_unix_ns": now, "rollouts": [rollout]},
        "/api/v1/silences": {"as_of_unix_ns": now, "silences": [silence]},
        "/api/v1/requests": page,
        "/api/v1/requests/live": live,
        "/api/v1/requests/abc": detail,
    }


@pytest.fixture(scope="module")
def server(answers: dict[str, Any]) -> Iterator[HostileServer]:
    hostile = HostileServer(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(hostile.answer(self.path)).encode()
            self.send_response(hostile.status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments: Any) -> None:
            """Tests are quiet."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hostile.url = f"http://127.0.0.1:{listener.server_port}"
    thread = Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield hostile
    listener.shutdown()
    thread.join()
    listener.server_close()


def run(server: HostileServer, text: str, *arguments: str) -> Result:
    server.text = text
    environment = {"PILOTHOUSE_URL": server.url, "COLUMNS": "200", "NO_COLOR": "1"}
    return CliRunner().invoke(main, list(arguments), env=environment)


def is_harmless(output: str) -> bool:
    return all(line.isprintable() for line in output.split("\n"))


@EVERY_CASE
@settings(max_examples=8, deadline=None)
@given(text=HOSTILE)
@example(text=ESCAPE)
@example(text="[bold red]")
def test_no_text_of_an_answer_reaches_the_terminal_raw(
    server: HostileServer, arguments: list[str], text: str
) -> None:
    server.status = 200

    result = run(server, text, *arguments)

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 0, result.output
    assert is_harmless(result.output)


@settings(max_examples=15, deadline=None)
@given(text=HOSTILE)
@example(text=ESCAPE)
def test_no_error_of_a_server_reaches_the_terminal_raw(server: HostileServer, text: str) -> None:
    server.status = 409

    result = run(server, text, "get")

    assert result.exit_code == 1
    assert is_harmless(result.output)


@pytest.mark.parametrize("name", ["a\x1b[2J.yaml", "a\u202eb.yaml"])
def test_no_file_name_reaches_the_terminal_raw(tmp_path: Path, name: str) -> None:
    for arguments in (["apply", "-f", str(tmp_path / name)],):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code != 0
        assert is_harmless(result.output)


def test_what_looks_like_markup_is_shown_as_it_is(server: HostileServer) -> None:
    server.status = 200

    for arguments in (["requests"], ["trace", "abc"], ["get", "replicas"]):
        assert "[red]" in run(server, "[red]x[/red]", *arguments).stdout


@settings(deadline=None)
@given(st.text())
def test_printable_text_stays_and_everything_else_is_replaced_one_by_one(text: str) -> None:
    cleaned = printable(text)

    assert cleaned.isprintable()
    assert len(cleaned) == len(text)
    assert printable(cleaned) == cleaned
    assert printable_lines(text).count("\n") == text.count("\n")


@settings(deadline=None)
@given(st.lists(st.lists(HOSTILE, min_size=2, max_size=2), min_size=1))
def test_a_table_has_one_line_a_row(rows: list[list[str]]) -> None:
    assert len(table(rows).split("\n")) == len(rows)
    assert is_harmless(table(rows))


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers(), min_size=1))
def test_yaml_is_harmless_and_reads_back_the_same(document: dict[str, Any]) -> None:
    text = as_yaml(document)

    assert is_harmless(text)
    sources, problems = read_yaml("f.yaml", text)
    if not problems:
        assert [source.data for source in sources] == [document]


@settings(deadline=None)
@given(st.text())
def test_every_later_line_of_what_somebody_wrote_is_marked(text: str) -> None:
    later = continued(text, "    ").splitlines()[1:]
    assert all(line.startswith("    | ") for line in later)
