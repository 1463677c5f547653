"""`python -m dataplane.gateway.reload`: a new process in the place of a running gateway.

SIGHUP alone asks for one and tells nothing of what came of it. This waits until the status file
names the new process, and fails when it cannot, so that a service manager's reload fails too.
"""

import os
import signal
import time
from pathlib import Path

import click

from dataplane.gateway.status import GatewayStatus, read_status

_LOOK_SECONDS = 0.1
_TIMEOUT_SECONDS = 80.0
"""The longest that a successor waits for snapshot, replicas and tokenizers, and its start."""


class ReloadError(Exception):
    """No new process serves; the message says which one does."""


def reload(state_dir: Path, timeout_seconds: float) -> GatewayStatus:
    """Ask the gateway that serves from `state_dir` for a successor; its status once it serves.

    Raises ReloadError.
    """
    try:
        before = read_status(state_dir)
    except FileNotFoundError as error:
        raise ReloadError(f"no gateway has served from {state_dir} yet") from error
    try:
        os.kill(before.pid, signal.SIGHUP)
    except OSError as error:
        raise ReloadError(
            f"the gateway of {state_dir} (pid {before.pid}) cannot be asked for a successor: "
            f"{error.strerror}"
        ) from error
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        now = read_status(state_dir)
        if now.gateway_id != before.gateway_id:
            return now
        if now.num_successors_failed != before.num_successors_failed:
            raise ReloadError(
                f"the new process ended before it served, and pid {before.pid} serves on: the "
                f"gateway's log has its last words"
            )
        if not Path(f"/proc/{before.pid}").exists():
            raise ReloadError(f"pid {before.pid} ended, and no new process serves")
        time.sleep(_LOOK_SECONDS)
    raise ReloadError(
        f"no new process serves after {timeout_seconds:g} s, and pid {before.pid} serves on: see "
        f"the gateway's log"
    )


@click.command()
@click.option("--state-dir", required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--timeout", "timeout_seconds", default=_TIMEOUT_SECONDS, show_default=True)
def main(state_dir: Path, timeout_seconds: float) -> None:
    """Let a new process take over from the gateway of --state-dir; return when it serves."""
    try:
        after = reload(state_dir, timeout_seconds)
    except ReloadError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{after.name}: pid {after.pid} serves at {after.address}")


if __name__ == "__main__":
    main()
