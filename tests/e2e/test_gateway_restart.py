"""`pilothouse gateway restart` on a served installation, with streams of the real model."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.gateway.status import GatewayStatus, read_status
from dataplane.processes import ProcessDirectory, terminate
from tests.e2e.served import Served, start_serve, wait_for
from tests.e2e.test_serve import find_missing, stream

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.timeout(600)]

NUM_STREAMS = 4
NUM_TOKENS = 32


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that lets streams take as long as a busy machine needs for them."""
    state_dir = tmp_path_factory.mktemp("restarted") / "state"
    installation = start_serve(state_dir, options=["--drain-seconds", "200"])
    try:
        installation.wait_until_ready(300)
        yield installation
    finally:
        status = installation.stop()
        for record in ProcessDirectory(state_dir).records():
            terminate(record, grace_seconds=0)
    assert status == 0, installation.log_path.read_text()


def status_of(served: Served) -> GatewayStatus:
    return read_status(served.state_dir / "gateways" / "gateway-0")


def restart(served: Served) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controlplane.cli", "gateway", "restart",
         "--state-dir", str(served.state_dir), "--reason", "new release"],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def test_a_restart_cuts_no_stream_and_both_are_shown_meanwhile(served: Served) -> None:
    before = status_of(served)
    results: list[dict[str, Any]] = []
    began = threading.Semaphore(0)
    threads = [
        threading.Thread(
            target=stream, args=(served.gateway_url, NUM_TOKENS, results, began.release)
        )
        for _ in range(NUM_STREAMS)
    ]
    for thread in threads:
        thread.start()
    assert began.acquire(timeout=60)
    done = restart(served)
    assert done.returncode == 0, done.stderr
    after = status_of(served)
    [event] = served.get("/api/v1/audit?action=gateway.restart")["events"]
    assert (event["subject"], event["reason"]) == ("gateway/gateway-0", "new release")
    assert event["before"] == {"gateway_id": before.gateway_id, "pid": before.pid}
    assert event["after"] == {"gateway_id": after.gateway_id, "pid": after.pid}
    assert (
        f"pid {after.pid} serves at {served.gateway_url} in the place of {before.pid}"
        in done.stdout
    )
    wait_for(lambda: states(served).get(after.gateway_id) is False, 20, "the new one's report")
    if len(results) < NUM_STREAMS:
        wait_for(
            lambda: states(served).get(before.gateway_id) is True or len(results) == NUM_STREAMS,
            20,
            "the old one to be shown as draining",
        )
    again: list[dict[str, Any]] = []
    stream(served.gateway_url, 4, again)
    for thread in threads:
        thread.join()
    assert len(results) == NUM_STREAMS
    assert all(r["is_done"] and r["reasons"][-1] == "length" for r in results), results
    assert again[0]["is_done"]
    wait_for(lambda: find_missing(served, results + again) == [], 60, "the records of all")
    wait_for(lambda: list(states(served)) == [after.gateway_id], 60, "the old one to leave")
    assert "has left: it exited with code 0" in served.log_path.read_text()


def states(served: Served) -> dict[str, bool]:
    """Whether it drains, of every gateway that is listed."""
    gateways = served.get("/api/v1/gateways")["gateways"]
    return {each["gateway_id"]: each["is_draining"] for each in gateways}


def test_the_supervisors_own_request_is_no_tenants_and_is_listed_as_its_own(
    served: Served,
) -> None:
    found = served.get("/api/v1/requests?tenant=_pilothouse")["requests"]
    assert len(found) == 1
    assert found[0]["disposition"] in ("length", "stop")


def test_who_does_not_know_the_probe_key_is_no_probe(served: Served) -> None:
    body = {"model": "chat", "prompt": "Hello", "max_tokens": 1}
    url = f"{served.gateway_url}/v1/completions"
    guess = httpx.post(url, json=body, headers={"x-pilothouse-probe": "guess"}, timeout=60)
    record = wait_for(lambda: record_of(served, guess.headers["x-request-id"]), 30, "its record")
    assert record["tenant"] == "default"
    posing = httpx.post(url, json=body, headers={"x-pilothouse-tenant": "_pilothouse"}, timeout=60)
    assert posing.status_code == 403


def record_of(served: Served, request_id: str) -> Any:
    found = served.get("/api/v1/requests?tenant=default")["requests"]
    return next((each for each in found if each["request_id"] == request_id), None)


def test_replicas_are_given_the_drain_that_serve_was_told(served: Served) -> None:
    (replica,) = [r for r in ProcessDirectory(served.state_dir).records() if r.role == "replica"]
    environment = Path(f"/proc/{replica.pid}/environ").read_bytes().split(b"\0")
    assert b"PILOTHOUSE_DRAIN_SECONDS=200" in environment


def test_another_port_than_usual_is_told_for_the_command(served: Served) -> None:
    assert f"export PILOTHOUSE_URL={served.url}" in served.log_path.read_text()


def test_a_restart_whose_words_nobody_reads_is_in_the_audit_all_the_same(served: Served) -> None:
    before = status_of(served)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        subprocess.run(
            [sys.executable, "-m", "controlplane.cli", "gateway", "restart",
             "--state-dir", str(served.state_dir), "--reason", "unread"],
            stdout=writer, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    after = status_of(served)
    assert after.gateway_id != before.gateway_id
    event, *_ = served.get("/api/v1/audit?action=gateway.restart")["events"]
    assert (event["reason"], event["after"]["pid"]) == ("unread", after.pid)
