"""`python -m pilothouse_vllm.replica --spec SPEC.json --status STATUS.json` runs one vLLM
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
from pilothouse_vllm.client import create_client
from pilothouse_vllm.settings import parse_settings

MODULE = "pilothouse_vllm.replica"


def create_plan(spec: ReplicaSpec, port: int) -> ServerPlan:
    """`vllm serve`. Raises ValueError and ProgramMissingError."""
    settings = parse_settings(spec.settings)
    return ServerPlan(
        argv=(
            find_program(settings.server_executable, "vllm", "vLLM"),
            "serve",
            spec.artifact,
            *flags(
                served_model_name=spec.model_name,
                host=LOOPBACK,
                port=port,
                max_model_len=settings.max_model_len,
                max_num_seqs=settings.max_num_seqs,
                gpu_memory_utilization=settings.gpu_memory_utilization,
                dtype=settings.dtype,
            ),
            "--enable-prompt-tokens-details",
            *settings.server_args,
        ),
        port=port,
        environment=environment_with(settings.server_environment),
    )


def _create_client(spec: ReplicaSpec, address: str) -> EndpointClient:
    return create_client(spec.replica_id, address, parse_settings(spec.settings))


if __name__ == "__main__":
    sys.exit(run(MODULE, create_plan, _create_client))
