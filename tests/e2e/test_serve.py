"""`pilothouse serve` itself: what happens when parts of it are killed, and how it ends."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.processes import ProcessDirectory, ProcessRecord, is_alive, terminate
from tests.e2e.served import Served, start_serve, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.timeout(300)]

NUM_STREAMS = 16


def record(state_dir: Path, role: str) -> ProcessRecord:
    """The one living process of that role."""
    (found,) = [
        each
        for each in ProcessDirectory(state_dir).records()
        if each.role == role and is_alive(each)
    ]
    return found


def alive(state_dir: Path) -> list[str]:
    return [each.name for each in ProcessDirectory(state_dir).records() if is_alive(each)]


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state directory whose processes end with the test."""
    yield tmp_path / "state"
    for each in ProcessDirectory(tmp_path / "state").records():
        terminate(each, grace_seconds=0)


def stream(
    gateway_url: str,
    num_tokens: int,
    results: list[dict[str, Any]],
    on_first_event: Callable[[], None] = lambda: None,
) -> None:
    """One streamed completion; appends how it ended and its request id."""
    body = {
        "model": "chat",
        "prompt": "Once upon a time",
        "max_tokens": num_tokens,
        "ignore_eos": True,
        "stream": True,
    }
    events = []
    url = f"{gateway_url}/v1/completions"
    with httpx.stream("POST", url, json=body, timeout=120) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                events.append(line.removeprefix("data: "))
                if len(events) == 1:
                    on_first_event()
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    results.append(
        {
            "id": response.headers["x-request-id"],
            "is_done": events[-1:] == ["[DONE]"],
            "errors": [c["error"] for c in chunks if "error" in c],
            "reasons": [c["choices"][0]["finish_reason"] for c in chunks if c.get("choices")],
        }
    )


def test_parts_that_are_killed_come_back_and_ctrl_c_leaves_nothing(state_dir: Path) -> None:
    served = start_serve(state_dir)
    try:
        served.wait_until_ready()
        check_control_plane_killed_while_streams_run(served)
        check_killed_replica_is_replaced(served)
        check_requests_of_a_killed_gateway_are_recorded_as_lost(served)
        served = check_killed_supervisor_is_followed_by_one_that_adopts(served)
        check_second_serve_is_refused(served)
    finally:
        served.supervisor.send_signal(signal.SIGINT)
        code = served.supervisor.wait(60)
    assert code == 0, served.log_path.read_text()
    assert alive(state_dir) == []
    assert "nothing is left running" in served.log_path.read_text()


def check_control_plane_killed_while_streams_run(served: Served) -> None:
    results: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=stream, args=(served.gateway_url, 24, results))
        for _ in range(NUM_STREAMS)
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: served.live()["counts"]["active"] > 0, 30, "streams to run")
    before = record(served.state_dir, "controlplane")
    os.kill(before.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert len(results) == NUM_STREAMS
    assert all(r["is_done"] and r["reasons"][-1] == "length" for r in results), results
    wait_for(lambda: find_missing(served, results) == [], 60, "the records of all streams")
    assert record(served.state_dir, "controlplane").pid != before.pid


def find_missing(served: Served, results: list[dict[str, Any]]) -> list[str]:
    """Ids whose record the control plane does not have; all of them while it is away."""
    missing = []
    for result in results:
        try:
            answer = httpx.get(f"{served.url}/api/v1/requests/{result['id']}", timeout=10)
        except httpx.TransportError:
            return [each["id"] for each in results]
        if answer.status_code != 200:
            missing.append(result["id"])
    return missing


def check_killed_replica_is_replaced(served: Served) -> None:
    before = record(served.state_dir, "replica")
    results: list[dict[str, Any]] = []
    stream(
        served.gateway_url,
        2000,
        results,
        on_first_event=lambda: os.kill(before.pid, signal.SIGKILL),
    )
    assert len(results[0]["errors"]) == 1, results
    assert before.name in results[0]["errors"][0]["message"]
    assert "length" not in results[0]["reasons"]
    wait_for(lambda: ready_replicas(served) not in ([], [before.name]), 90, "another replica")
    history = served.get("/api/v1/replicas")["history"]
    ended = next(h for h in history if h["replica_id"] == before.name)
    assert ended["state"] == "failed"
    again: list[dict[str, Any]] = []
    stream(served.gateway_url, 4, again)
    assert again[0]["is_done"]


def ready_replicas(served: Served) -> list[str]:
    replicas = served.get("/api/v1/replicas")["replicas"]
    return [each["replica_id"] for each in replicas if each["state"] == "ready"]


def check_requests_of_a_killed_gateway_are_recorded_as_lost(served: Served) -> None:
    before = record(served.state_dir, "gateway")
    with httpx.stream(
        "POST",
        f"{served.gateway_url}/v1/completions",
        json={"model": "chat", "prompt": "Once", "max_tokens": 500, "stream": True},
        timeout=60,
    ) as response:
        lost_id = response.headers["x-request-id"]
        next(response.iter_lines())
        os.kill(before.pid, signal.SIGKILL)

    def find_record() -> Any:
        answer = httpx.get(f"{served.url}/api/v1/requests/{lost_id}", timeout=10)
        return answer.json() if answer.status_code == 200 else None

    found = wait_for(find_record, 60, "the record of the lost request")
    assert '"lost"' in json.dumps(found)
    assert record(served.state_dir, "gateway").pid != before.pid
    again: list[dict[str, Any]] = []
    wait_for(lambda: is_answering(served), 30, "the gateway to be back")
    stream(served.gateway_url, 4, again)
    assert again[0]["is_done"]


def is_answering(served: Served) -> bool:
    """The gateway is there and has its snapshot."""
    try:
        return bool(httpx.get(f"{served.gateway_url}/v1/models", timeout=5).json()["data"])
    except httpx.TransportError:
        return False


def check_killed_supervisor_is_followed_by_one_that_adopts(served: Served) -> Served:
    pids = {role: record(served.state_dir, role).pid for role in ("gateway", "controlplane")}
    replica = record(served.state_dir, "replica")
    served.supervisor.kill()
    served.supervisor.wait()
    assert len(alive(served.state_dir)) == 3
    again = start_serve(served.state_dir, [served.port, served.gateway_port])
    again.wait_until_ready()
    assert {role: record(served.state_dir, role).pid for role in pids} == pids
    assert record(served.state_dir, "replica") == replica
    log = again.log_path.read_text()
    assert "adopted gateway-0" in log
    assert f"found {replica.name}" in log
    return again


def check_second_serve_is_refused(served: Served) -> None:
    second = start_serve(served.state_dir)
    assert second.supervisor.wait(30) == 1
    said = second.log_path.read_text()
    assert f"another pilothouse serve (pid {served.supervisor.pid})" in said
    assert len(alive(served.state_dir)) == 3


def test_a_port_of_somebody_else_is_named_and_nothing_is_left_running(state_dir: Path) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        taken = stranger.getsockname()[1]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            other = free.getsockname()[1]
        served = start_serve(state_dir, [other, taken])
        assert served.supervisor.wait(60) == 1
    said = served.log_path.read_text()
    assert f"port {taken} for the gateway" in said
    assert "--gateway-port" in said
    assert alive(state_dir) == []


def test_a_database_that_is_none_stops_the_start_with_the_remedy(state_dir: Path) -> None:
    state_dir.mkdir()
    (state_dir / "config.db").write_bytes(b"this is no database" * 100)
    served = start_serve(state_dir)
    assert served.supervisor.wait(60) == 3
    assert "Restore a backup, or move" in served.log_path.read_text()
    assert alive(state_dir) == []


def test_sigterm_during_the_start_ends_everything(state_dir: Path) -> None:
    served = start_serve(state_dir)
    wait_for(lambda: alive(state_dir), 60, "the first process")
    served.supervisor.send_signal(signal.SIGTERM)
    assert served.supervisor.wait(60) == 0
    assert alive(state_dir) == []
