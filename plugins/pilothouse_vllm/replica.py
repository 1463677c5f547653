"""`python -m pilothouse_vllm.replica --spec SPEC.json --status STATUS.json` runs one vLLM
server."""

import sys

from dataplane.engine import ReplicaSpec
from dataplane.owned_server.main import run
from dataplane.owned_server.plan import LOOPBACK, ServerPlan, flags, plan_server
from pilothouse_vllm.client import create_replica_client
from pilothouse_vllm.settings import parse_settings
from pilothouse_vllm.terms import TERMS

MODULE = "pilothouse_vllm.replica"


def create_plan(spec: ReplicaSpec, port: int) -> ServerPlan:
    """`vllm serve`. Raises ValueError and ProgramMissingError."""
    settings = parse_settings(spec.settings)
    words = (
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
    )
    return plan_server(TERMS, settings, words, port)


if __name__ == "__main__":
    sys.exit(run(MODULE, create_plan, create_replica_client))
