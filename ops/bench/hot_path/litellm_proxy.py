"""LiteLLM's proxy in front of the stub: one worker, no database, no logging, no network."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from ops.bench.hot_path.server_process import NotStartedError, ServerProcess, running

REQUIREMENT = "litellm[proxy]==1.108.*"
_INSTALL_SECONDS = 900.0
_START_SECONDS = 120.0
_CALL_SECONDS = 10.0
_CONFIG = """\
model_list:
  - model_name: stub
    litellm_params: {{model: openai/stub, api_base: "http://{upstream}/v1", api_key: none}}
litellm_settings: {{telemetry: false, set_verbose: false, num_retries: 0}}
"""


class NotInstalledError(Exception):
    """LiteLLM cannot be had; the message says why."""


def install_litellm(venv: Path) -> str:
    """Make `venv` with LiteLLM in it, unless it is there; returns the version.

    Raises NotInstalledError.
    """
    if not (venv / "bin" / "litellm").exists():
        _run([sys.executable, "-m", "venv", str(venv)])
        _run([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", REQUIREMENT])
    code = "import importlib.metadata as m; print(m.version('litellm'))"
    return _run([str(venv / "bin" / "python"), "-c", code]).strip()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()[-3:]
        raise NotInstalledError(f"{' '.join(command)}: {' | '.join(said)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{' '.join(command)}: {error}") from error
    return done.stdout


@contextlib.contextmanager
def litellm_running(
    venv: Path, upstream: str, core: int, folder: Path
) -> Iterator[tuple[ServerProcess, str]]:
    """Start the proxy, and wait until it answers; yields it and its host:port.

    Raises NotStartedError.
    """
    config_path = folder / "litellm.yaml"
    config_path.write_text(_CONFIG.format(upstream=upstream))
    port = _free_port()
    command = [
        str(venv / "bin" / "litellm"), "--config", str(config_path), "--host", "127.0.0.1",
        "--port", str(port), "--num_workers", "1", "--telemetry", "False",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches one from the network
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        # No key is asked for: the cheapest that it can do, and it listens on this machine alone.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with running("litellm", command, core, folder, environment) as process:
        address = f"127.0.0.1:{port}"
        _wait_until_it_answers(process, address)
        yield process, address


def _wait_until_it_answers(process: ServerProcess, address: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        process.check_alive()
        with contextlib.suppress(httpx.HTTPError):
            url = f"http://{address}/health/liveliness"
            if httpx.get(url, timeout=_CALL_SECONDS, trust_env=False).is_success:
                return
        time.sleep(0.5)
    raise NotStartedError(f"litellm does not answer after {_START_SECONDS:g} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
