"""The command line of a replica whose engine is somebody else's server, for plugins' modules."""

import argparse
import asyncio
import logging
import os
from pathlib import Path

import msgspec

from dataplane.clock import monotonic_clock
from dataplane.engine import ReplicaSpec
from dataplane.host import DRAIN_VARIABLE
from dataplane.host.status import StatusFile
from dataplane.logs import configure_logs
from dataplane.owned_server.process import CreateClient
from dataplane.owned_server.replica import CreatePlan, OwnedServerSettings, run_replica

_DRAIN_SECONDS = 30.0
_GRACE_SECONDS = 10.0


def run(module: str, create_plan: CreatePlan, create_client: CreateClient) -> int:
    """Returns the exit code; 2 when the arguments or the spec cannot be used."""
    parser = _create_parser(module)
    arguments = parser.parse_args()
    try:
        spec = msgspec.json.decode(arguments.spec.read_bytes(), type=ReplicaSpec)
    except (OSError, msgspec.ValidationError, msgspec.DecodeError) as error:
        parser.error(f"--spec {arguments.spec} is no ReplicaSpec: {error}")
    configure_logs("replica", replica_id=spec.replica_id, deployment=spec.deployment)
    status = StatusFile(arguments.status, spec.replica_id, monotonic_clock, spec.fencing_token)
    settings = OwnedServerSettings(
        drain_seconds=arguments.drain_seconds, grace_seconds=_GRACE_SECONDS
    )
    exit_code = asyncio.run(run_replica(spec, status, create_plan, create_client, settings))
    logging.shutdown()
    return exit_code


def _create_parser(module: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description="Run one server as a replica."
    )
    parser.add_argument("--spec", type=Path, required=True, help="ReplicaSpec (JSON) to run")
    parser.add_argument("--status", type=Path, required=True, help="where to keep ReplicaStatus")
    parser.add_argument(
        "--drain-seconds",
        type=float,
        default=os.environ.get(DRAIN_VARIABLE, _DRAIN_SECONDS),
        help=f"how long running requests may go on after SIGTERM (env {DRAIN_VARIABLE})",
    )
    return parser
