"""`pilothouse gateway restart` where there is nobody to restart."""

import fcntl
import os
from pathlib import Path

from click.testing import CliRunner

from controlplane.cli import main


def restart(state_dir: Path) -> tuple[int, str]:
    result = CliRunner().invoke(
        main, ["gateway", "restart", "--state-dir", str(state_dir)], catch_exceptions=False
    )
    return result.exit_code, result.output


def test_without_a_running_serve_it_says_what_to_start_or_name(tmp_path: Path) -> None:
    (tmp_path / "serve.lock").write_text("4711")
    for state_dir in (tmp_path, tmp_path / "elsewhere"):
        code, said = restart(state_dir)
        assert code == 1
        assert f"no pilothouse serve runs on {state_dir}" in said
        assert "--state-dir" in said


def test_before_the_gateway_serves_it_says_to_wait(tmp_path: Path) -> None:
    with (tmp_path / "serve.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(os.getpid()))
        lock.flush()
        code, said = restart(tmp_path)
    assert code == 1
    assert "has not begun to serve yet" in said
