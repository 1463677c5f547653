"""Engines that nobody here wrote, installed by `ops/setup-peers.sh`: `make test-peers` runs these.

`PILOTHOUSE_PEERS` names the folder that they are in; without it nothing of this folder is
collected, since the engines take longer to install than all tests to run.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.served import Served, start_serve
from tests.peers.engines import Engines, Peers, llamacpp_command, vllm_command, vllm_environment
from tests.ports import free_ports

PEERS = os.environ.get("PILOTHOUSE_PEERS")
collect_ignore_glob = [] if PEERS else ["test_*.py"]
_START_SECONDS = 400


@pytest.fixture(scope="session")
def engines() -> Engines:
    """What is installed."""
    assert PEERS is not None
    found = Engines(Path(PEERS).absolute())
    found.check()
    return found


@pytest.fixture(scope="session")
def peers(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Pilothouse, and both engines with the demo model, which it is not told of yet. vLLM sends its
    spans to the control plane."""
    folder = tmp_path_factory.mktemp("peers")
    vllm_port, llamacpp_port = free_ports(2)
    with contextlib.ExitStack() as running:
        served = running.enter_context(_serving(folder / "state", engines))
        vllm = _start(
            vllm_command(engines, vllm_port, f"{served.url}/v1/traces"),
            folder / "vllm.log",
            vllm_environment(),
        )
        running.callback(_end, vllm)
        llamacpp = _start(llamacpp_command(engines, llamacpp_port), folder / "llamacpp.log", {})
        running.callback(_end, llamacpp)
        found = Peers(
            served=served,
            vllm=f"http://127.0.0.1:{vllm_port}",
            llamacpp=f"http://127.0.0.1:{llamacpp_port}",
        )
        _wait_until_well(found.llamacpp, llamacpp, folder / "llamacpp.log")
        _wait_until_well(found.vllm, vllm, folder / "vllm.log")
        yield found


@contextlib.contextmanager
def _serving(state_dir: Path, engines: Engines) -> Iterator[Served]:
    programs = f"{engines.vllm}:{engines.llama_server}"
    granted = {
        "ENGINE_PROGRAMS": programs,
        "ENGINE_OPTIONS": "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    }
    served = start_serve(state_dir, env=granted)
    try:
        served.wait_until_ready()
        yield served
    finally:
        assert served.stop() == 0, served.log_path.read_text()


def _start(
    command: list[str], log_path: Path, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    with log_path.open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            start_new_session=True,
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def _wait_until_well(url: str, process: "subprocess.Popen[bytes]", log_path: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", timeout=5).is_success:
                return
        assert process.poll() is None, log_path.read_text()[-3000:]
        assert time.monotonic() < deadline, log_path.read_text()[-3000:]
        time.sleep(0.5)
