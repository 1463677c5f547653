"""An engine that is only observed: a real process that is frozen, and then killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from tests.controlplane.control_plane_server import serve_control_plane
from tests.e2e.served import wait_for
from tests.ports import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

QUICK = AlwaysOnSettings(
    pass_seconds=0.5, look_seconds=1.0, keep_seconds=60.0, calm_seconds=3.0,
    scrape_deadline_seconds=0.5,
)  # fmt: skip
ENGINE = """
import http.server, sys
PAGE = b'''# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
'''
class Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Engine).serve_forever()
"""
DOCUMENTS = """
kind: Model
metadata: {{name: there}}
spec: {{artifact: {{url: "http://127.0.0.1:{port}"}}}}
---
kind: EngineConfig
metadata: {{name: there}}
spec: {{engine: vllm}}
---
kind: AdmissionPolicy
metadata: {{name: open}}
spec: {{classes: [{{name: all, priority: 1}}]}}
---
kind: Deployment
metadata: {{name: there}}
spec: {{model: there, engine: there, policy: open, observe_only: true}}
"""


@pytest.fixture
def engine() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process and its port."""
    (port,) = free_ports(1)
    process = subprocess.Popen([sys.executable, "-c", ENGINE, str(port)], stderr=subprocess.DEVNULL)
    try:
        yield process, port
    finally:
        process.kill()
        process.wait(30)


def test_a_frozen_engine_is_lost_and_hangs_and_once_killed_it_is_gone(
    engine: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    process, port = engine
    with serve_control_plane(tmp_path / "state", QUICK) as (url, _):

        def get(path: str) -> Any:
            return httpx.get(f"{url}/api/v1/{path}", timeout=10).json()

        def state() -> str:
            replicas = get("overview")["replicas"]
            return str(replicas[0]["state"]) if replicas else "none"

        def lost() -> list[dict[str, Any]]:
            return [each for each in get("overview")["troubles"] if each["about"] == "replicas"]

        def named(wanted: dict[str, str]) -> list[str]:
            found = get("incidents")["incidents"]
            return [each["mechanism"] for each in found if wanted.items() <= each.items()]

        files = [{"name": "there.yaml", "text": DOCUMENTS.format(port=port)}]
        applied = httpx.post(f"{url}/api/v1/apply", json={"files": files, "author": "a"})
        assert applied.status_code == 200, applied.text

        def figures() -> bool:
            replicas = get("overview")["replicas"]
            return bool(replicas) and replicas[0]["num_running"] == 3

        wait_for(figures, 30, "what its page says")
        assert get("overview")["replicas"][0]["num_waiting"] == 1
        assert lost() == []
        page = httpx.get(f"{url}/", timeout=10).text
        assert ("not seen here" in page, "no traffic" in page) == (True, False)

        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: state() == "unreachable", 40, "the frozen engine to be lost")
        (trouble,) = lost()
        assert trouble["severity"] == "page"
        assert "takes connections" in trouble["what"]
        wait_for(lambda: get("incidents")["incidents"], 30, "an incident")
        assert get("incidents")["incidents"][0]["mechanism"] == "engine.hung"

        # Why it is lost is what is so now, and not what was so when it was lost.
        process.kill()
        wait_for(lambda: "its process is gone" in lost()[0]["what"], 40, "its end to be told")
        told = [each["state"] for each in get("replicas")["history"]]
        assert told == ["unreachable", "ready", "starting"]
        open_now = {"state": "open"}
        wait_for(lambda: named(open_now) == ["engine.gone"], 30, "the incident of its end")
