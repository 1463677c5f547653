"""A Llama of two small layers with random weights: every path of the engine, in milliseconds."""

import math
from pathlib import Path
from typing import Any

import torch

from pilothouse_paged.attention import attend_decodes
from pilothouse_paged.core import PagedEngineCore
from pilothouse_paged.model import LlamaModel
from pilothouse_paged.runner import build_runner
from pilothouse_paged.settings import parse_settings
from pilothouse_paged.shape import LlamaShape
from pilothouse_paged.weights import LayerWeights, LlamaWeights

END_ID = 63
SHAPE = LlamaShape(
    num_layers=2,
    hidden_size=32,
    intermediate_size=48,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    vocab_size=64,
    context_length=256,
    rope_base=10_000.0,
    norm_epsilon=1e-5,
    end_token_ids=frozenset({END_ID}),
)
BYTES_PER_TOKEN = 2 * SHAPE.num_layers * SHAPE.num_kv_heads * SHAPE.head_dim * 4


def build_tiny_core(num_blocks: int = 64, block_size: int = 4, **settings: Any) -> PagedEngineCore:
    """A started core; keywords are settings of the engine."""
    parsed = parse_settings(
        {
            "device": "cpu",
            "block_size": block_size,
            "kv_memory": f"{num_blocks * block_size * BYTES_PER_TOKEN}B",
            **settings,
        }
    )
    core = PagedEngineCore(str(Path("tiny")), parsed)
    core.start(build_runner(LlamaModel(SHAPE, random_weights(), attend_decodes), parsed))
    return core


def random_weights(seed: int = 0) -> LlamaWeights:
    """Weights large enough that the model prefers some tokens over others."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(num_rows: int, num_columns: int) -> torch.Tensor:
        scale = 2.0 / math.sqrt(num_columns)
        return torch.randn(num_rows, num_columns, generator=generator) * scale

    heads = SHAPE.num_heads * SHAPE.head_dim
    kv_heads = SHAPE.num_kv_heads * SHAPE.head_dim
    embedding = matrix(SHAPE.vocab_size, SHAPE.hidden_size)
    layers = tuple(
        LayerWeights(
            attention_norm=torch.ones(SHAPE.hidden_size),
            qkv=matrix(heads + 2 * kv_heads, SHAPE.hidden_size),
            attention_output=matrix(SHAPE.hidden_size, heads),
            mlp_norm=torch.ones(SHAPE.hidden_size),
            gate_up=matrix(2 * SHAPE.intermediate_size, SHAPE.hidden_size),
            down=matrix(SHAPE.hidden_size, SHAPE.intermediate_size),
        )
        for _ in range(SHAPE.num_layers)
    )
    return LlamaWeights(
        embedding=embedding,
        layers=layers,
        output_norm=torch.ones(SHAPE.hidden_size),
        output=embedding,
    )
