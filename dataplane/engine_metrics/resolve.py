"""The vocabularies there are."""

from dataplane.engine_metrics.llamacpp import LLAMACPP
from dataplane.engine_metrics.sglang import SGLANG
from dataplane.engine_metrics.vllm import VLLM

VOCABULARIES = {each.engine: each for each in (VLLM, SGLANG, LLAMACPP)}
"""By engine."""
