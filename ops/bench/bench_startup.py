"""How long `pilothouse serve` takes until a real request is answered, first and second start.

    .venv/bin/python ops/bench/bench_startup.py --rounds 3

A first start finds no database and no caches; a second start finds both. The clock runs from
the launch of the command until it prints its `curl` line, which it does only after a token
came through the gateway. Prints the median and the range of each, in seconds.
"""

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READY_MARK = b"curl"
TIMEOUT_SECONDS = 120


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def measure_start(state_dir: Path, cache_dir: Path) -> float:
    """Seconds from the launch to the printed `curl` line; the service is stopped again."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "controlplane.cli", "serve", "--state-dir", str(state_dir),
         "--port", str(free_port()), "--gateway-port", str(free_port())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache_dir), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    lines = []
    ready = None
    for line in process.stdout:
        lines.append(line)
        if READY_MARK in line:
            ready = time.monotonic() - started
            break
        if time.monotonic() - started > TIMEOUT_SECONDS:
            break
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    process.wait(60)
    if ready is None:
        raise SystemExit(b"".join(lines).decode() + "\nit never became ready")
    return ready


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    first, second = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            state_dir, cache_dir = Path(folder, "state"), Path(folder, "cache")
            first.append(measure_start(state_dir, cache_dir))
            second.append(measure_start(state_dir, cache_dir))
    for name, seconds in (("first start", first), ("second start", second)):
        print(
            f"{name:12}  median {statistics.median(seconds):5.1f} s   "
            f"range {min(seconds):.1f} to {max(seconds):.1f} s   n={rounds}"
        )


if __name__ == "__main__":
    main()
