"""The commands of the deployment files, run for real with other paths and ports."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "ops" / "deploy"
BIN = Path(sys.executable).parent
_ANSWER_SECONDS = 150


@dataclass
class Installation:
    """One control plane and one gateway, in a folder of their own."""

    folder: Path
    port: int = field(default_factory=free_port)
    gateway_port: int = field(default_factory=free_port)

    @property
    def admin_key(self) -> Path:
        return self.folder / "admin.key"

    @property
    def gateway_key(self) -> Path:
        return self.folder / "gateway.key"

    def make_admin(self, state_dir: Path) -> None:
        """It needs no control plane that runs."""
        self.run("access", "bootstrap", "--state-dir", str(state_dir), "--out", str(self.admin_key))

    def make_gateway_key(self) -> None:
        """Once the control plane answers."""
        options = ("--role", "gateway", "--out", str(self.gateway_key))
        self.run("keys", "create", "gateway-0", *options)

    def run(self, *arguments: str) -> None:
        """One `pilothouse` command, which must succeed."""
        environment = {
            "PILOTHOUSE_URL": f"http://127.0.0.1:{self.port}",
            "PILOTHOUSE_KEY_FILE": str(self.admin_key),
        }
        run([str(BIN / "pilothouse"), *arguments], environment)

    def has_answered(self, port: int) -> bool:
        """The health check of the image says that it is well, within a bound."""
        check = [sys.executable, str(DEPLOY / "container" / "healthcheck.py")]
        environment = os.environ | {"PILOTHOUSE_HEALTH_URL": f"http://127.0.0.1:{port}/healthz"}
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            if (
                subprocess.run(
                    check, env=environment, check=False, stderr=subprocess.DEVNULL
                ).returncode
                == 0
            ):
                return True
            time.sleep(0.1)
        return False


def run(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What it said; it must succeed."""
    done = subprocess.run(
        list(argv),
        env=os.environ | dict(environment or {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def running(
    argv: Sequence[str], log_path: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that must end well on SIGTERM when the block ends."""
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            list(argv),
            env=os.environ | dict(environment or {}),
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(150) == 0, log_path.read_text()
    finally:
        process.kill()
        process.wait()
