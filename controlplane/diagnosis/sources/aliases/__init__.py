"""Which exported name tells which signal, by exporter."""

from controlplane.diagnosis.sources.aliases.gateway import GATEWAY
from controlplane.diagnosis.sources.aliases.llamacpp import LLAMACPP
from controlplane.diagnosis.sources.aliases.replica import REPLICA
from controlplane.diagnosis.sources.aliases.routers import DYNAMO, LLM_D, SGLANG_ROUTER
from controlplane.diagnosis.sources.aliases.sglang import SGLANG
from controlplane.diagnosis.sources.aliases.surroundings import DEVICE, HTTP, PROCESS
from controlplane.diagnosis.sources.aliases.tgi import TGI
from controlplane.diagnosis.sources.aliases.trtllm import TRTLLM
from controlplane.diagnosis.sources.aliases.vllm import VLLM

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
    PROCESS,
    HTTP,
    DEVICE,
)
"""Engines first."""
