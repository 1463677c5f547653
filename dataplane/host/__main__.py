"""`python -m dataplane.host --spec SPEC.json --status STATUS.json` runs one replica."""

import argparse
import asyncio
import logging
import os
from pathlib import Path

import msgspec

from dataplane.clock import monotonic_clock
from dataplane.engine import ReplicaSpec
from dataplane.host import DRAIN_VARIABLE
from dataplane.host.replica import ReplicaSettings, run_replica
from dataplane.host.status import StatusFile
from dataplane.logs import configure_logs

DEFAULT_DRAIN_SECONDS = 30.0


def main() -> int:
    """Returns the exit code; 2 when the arguments or the spec cannot be used."""
    parser = _create_parser()
    arguments = parser.parse_args()
    try:
        spec = msgspec.json.decode(arguments.spec.read_bytes(), type=ReplicaSpec)
    except (OSError, msgspec.ValidationError, msgspec.DecodeError) as error:
        parser.error(f"--spec {arguments.spec} is no ReplicaSpec: {error}")
    configure_logs("replica", replica_id=spec.replica_id, deployment=spec.deployment)
    status = StatusFile(arguments.status, spec.replica_id, monotonic_clock, spec.fencing_token)
    settings = ReplicaSettings(host=arguments.host, drain_seconds=arguments.drain_seconds)
    return asyncio.run(run_replica(spec, status, settings))


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dataplane.host", description=__doc__)
    parser.add_argument("--spec", type=Path, required=True, help="ReplicaSpec (JSON) to run")
    parser.add_argument("--status", type=Path, required=True, help="where to keep ReplicaStatus")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--drain-seconds",
        type=float,
        default=os.environ.get(DRAIN_VARIABLE, DEFAULT_DRAIN_SECONDS),
        help=f"how long running requests may go on after SIGTERM (env {DRAIN_VARIABLE})",
    )
    return parser


if __name__ == "__main__":
    exit_code = main()
    logging.shutdown()
    # The engine's thread may be deep in a load or a step; it is not waited for.
    os._exit(exit_code)
