"""A GGUF file of a Llama as Hugging Face style folders store it: its config and its tensors.

Read by the `gguf` library alone, so that what is compared with the engine shares no code with it.
"""

from pathlib import Path
from typing import Any

import gguf
import torch

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def read_as_stored(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The config, and each tensor dequantized to float32, by the name it has in a folder."""
    reader = gguf.GGUFReader(path)
    config = _config(reader)
    num_heads = {
        "attn_q": config["num_attention_heads"],
        "attn_k": config["num_key_value_heads"],
    }
    tensors = {
        _stored_name(tensor.name): _values(tensor, num_heads.get(tensor.name.split(".")[-2]))
        for tensor in reader.tensors
    }
    return config, tensors


def _config(reader: gguf.GGUFReader) -> dict[str, Any]:
    def told(key: str) -> Any:
        return reader.fields[f"llama.{key}"].contents()

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": told("embedding_length"),
        "intermediate_size": told("feed_forward_length"),
        "num_hidden_layers": told("block_count"),
        "num_attention_heads": told("attention.head_count"),
        "num_key_value_heads": told("attention.head_count_kv"),
        "vocab_size": told("vocab_size"),
        "max_position_embeddings": told("context_length"),
        "rms_norm_eps": 1e-5,
        "rope_theta": told("rope.freq_base"),
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }


def _values(tensor: gguf.ReaderTensor, num_heads: int | None) -> torch.Tensor:
    values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
    if num_heads is None:
        return values
    # Neighbouring rows belong to the two halves of a head.
    halves = values.view(num_heads, -1, 2, values.shape[1]).transpose(1, 2)
    return halves.reshape(values.shape)


def _stored_name(name: str) -> str:
    match name.split("."):
        case ["blk", index, part, "weight"]:
            return f"model.layers.{index}.{_NAMES[part]}.weight"
        case [part, "weight"]:
            return f"{_NAMES[part]}.weight"
    raise ValueError(name)
