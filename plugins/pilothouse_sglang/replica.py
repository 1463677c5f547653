"""`python -m pilothouse_sglang.replica --spec SPEC.json --status STATUS.json` runs one SGLang
server."""

import sys

from dataplane.engine import ReplicaSpec
from dataplane.openai_endpoint.client import EndpointClient
from dataplane.owned_server.main import run
from dataplane.owned_server.plan import (
    LOOPBACK,
    ServerPlan,
    environment_with,
    find_program,
    flags,
)
from pilothouse_sglang.client import create_client
from pilothouse_sglang.settings import parse_settings

MODULE = "pilothouse_sglang.replica"


def create_plan(spec: ReplicaSpec, port: int) -> ServerPlan:
    """`python -m sglang.launch_server`. Raises ValueError and ProgramMissingError."""
    settings = parse_settings(spec.settings)
    return ServerPlan(
        argv=(
            find_program(settings.server_executable, "python3", "SGLang"),
            "-m",
            "sglang.launch_server",
            *flags(
                model_path=spec.artifact,
                served_model_name=spec.model_name,
                host=LOOPBACK,
                port=port,
                context_length=settings.max_model_len,
                max_running_requests=settings.max_num_seqs,
                mem_fraction_static=settings.mem_fraction_static,
                dtype=settings.dtype,
            ),
            "--enable-metrics",
            "--enable-cache-report",
            *settings.server_args,
        ),
        port=port,
        environment=environment_with(settings.server_environment),
    )


def _create_client(spec: ReplicaSpec, address: str) -> EndpointClient:
    return create_client(spec.replica_id, address, parse_settings(spec.settings))


if __name__ == "__main__":
    sys.exit(run(MODULE, create_plan, _create_client))
