"""`python -m pilothouse_sglang.replica --spec SPEC.json --status STATUS.json` runs one SGLang
server."""

import sys

from dataplane.engine import ReplicaSpec
from dataplane.owned_server.main import run
from dataplane.owned_server.plan import LOOPBACK, ServerPlan, flags, plan_server
from pilothouse_sglang.client import create_replica_client
from pilothouse_sglang.settings import parse_settings
from pilothouse_sglang.terms import TERMS

MODULE = "pilothouse_sglang.replica"
_NOTHING_FROM_HERE = {"PYTHONSAFEPATH": "1"}
"""`python -m` would look for modules in the folder that it is started in, first of all."""


def create_plan(spec: ReplicaSpec, port: int) -> ServerPlan:
    """`python -m sglang.launch_server`. Raises ValueError and ProgramMissingError."""
    settings = parse_settings(spec.settings)
    words = (
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
    )
    return plan_server(TERMS, settings, words, port, _NOTHING_FROM_HERE)


if __name__ == "__main__":
    sys.exit(run(MODULE, create_plan, create_replica_client))
