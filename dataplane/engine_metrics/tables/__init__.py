"""Which exported name tells which signal, by exporter."""

from dataplane.engine_metrics.tables.gateway import GATEWAY
from dataplane.engine_metrics.tables.llamacpp import LLAMACPP
from dataplane.engine_metrics.tables.replica import REPLICA
from dataplane.engine_metrics.tables.routers import DYNAMO, LLM_D, SGLANG_ROUTER, VLLM_ROUTER
from dataplane.engine_metrics.tables.sglang import SGLANG
from dataplane.engine_metrics.tables.surroundings import DEVICE, HTTP, PROCESS
from dataplane.engine_metrics.tables.tgi import TGI
from dataplane.engine_metrics.tables.trtllm import TRTLLM
from dataplane.engine_metrics.tables.vllm import VLLM

TABLES = (
    VLLM,
    SGLANG,
    LLAMACPP,
    TGI,
    TRTLLM,
    REPLICA,
    GATEWAY,
    DYNAMO,
    LLM_D,
    SGLANG_ROUTER,
    VLLM_ROUTER,
    PROCESS,
    HTTP,
    DEVICE,
)
"""Engines first."""
