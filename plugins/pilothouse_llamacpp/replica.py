"""`python -m pilothouse_llamacpp.replica --spec SPEC.json --status STATUS.json` runs one server of
llama.cpp."""

import sys

from dataplane.engine import ReplicaSpec
from dataplane.owned_server.main import run
from dataplane.owned_server.plan import LOOPBACK, ServerPlan, flags, plan_server
from pilothouse_llamacpp.client import create_replica_client
from pilothouse_llamacpp.settings import parse_settings
from pilothouse_llamacpp.terms import TERMS

MODULE = "pilothouse_llamacpp.replica"
_NUM_SLOTS = 4
"""Where nobody says how many."""


def create_plan(spec: ReplicaSpec, port: int) -> ServerPlan:
    """`llama-server`, which divides one context among its slots. Raises ValueError and
    ProgramMissingError."""
    settings = parse_settings(spec.settings)
    num_slots, length = settings.max_num_seqs or _NUM_SLOTS, settings.max_model_len
    words = (
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
    )
    return plan_server(TERMS, settings, words, port)


if __name__ == "__main__":
    sys.exit(run(MODULE, create_plan, create_replica_client))
