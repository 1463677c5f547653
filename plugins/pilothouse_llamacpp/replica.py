"""`python -m pilothouse_llamacpp.replica --spec SPEC.json --status STATUS.json` runs one server of
llama.cpp."""

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
from pilothouse_llamacpp.client import create_client
from pilothouse_llamacpp.settings import parse_settings

MODULE = "pilothouse_llamacpp.replica"
_NUM_SLOTS = 4
"""Where nobody says how many."""


def create_plan(spec: ReplicaSpec, port: int) -> ServerPlan:
    """`llama-server`, which divides one context among its slots. Raises ValueError and
    ProgramMissingError."""
    settings = parse_settings(spec.settings)
    num_slots, length = settings.max_num_seqs or _NUM_SLOTS, settings.max_model_len
    return ServerPlan(
        argv=(
            find_program(settings.server_executable, "llama-server", "llama.cpp"),
            *flags(
                model=spec.artifact,
                alias=spec.model_name,
                host=LOOPBACK,
                port=port,
                parallel=num_slots,
                ctx_size=None if length is None else length * num_slots,
                threads=settings.num_threads,
                gpu_layers=settings.num_gpu_layers,
            ),
            "--metrics",
            *settings.server_args,
        ),
        port=port,
        environment=environment_with(settings.server_environment),
    )


def _create_client(spec: ReplicaSpec, address: str) -> EndpointClient:
    return create_client(spec.replica_id, address, parse_settings(spec.settings))


if __name__ == "__main__":
    sys.exit(run(MODULE, create_plan, _create_client))
