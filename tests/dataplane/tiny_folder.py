"""A Hugging Face style folder, written in milliseconds: the vocabulary of `tiny_gguf`, random
weights in two shards, rows of q and k in the order that such folders have."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from tests.dataplane.tiny_gguf import END_ID, MERGES, TEMPLATE, tiny_tokens

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = "model.safetensors.index.json"
CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 288,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 3,
    "eos_token_id": END_ID,
}
"""The vocabulary is padded, as it is in many models: the tokenizer has fewer tokens."""

Arrays = dict[str, npt.NDArray[np.float32]]


def write_tiny_folder(path: Path, **config: Any) -> Path:
    """Write the folder; keywords replace or add keys of config.json."""
    path.mkdir(parents=True)
    merged = {**CONFIG, **config}
    write_json(path / "config.json", merged)
    write_json(path / "generation_config.json", {"eos_token_id": [END_ID, 0]})
    write_json(
        path / "tokenizer_config.json",
        {
            "bos_token": "<|bos|>",
            "eos_token": {"content": "<|end|>", "special": True},
            "add_bos_token": False,
            "chat_template": TEMPLATE,
        },
    )
    tiny_library_tokenizer().save(str(path / "tokenizer.json"))
    write_shards(path, tiny_arrays(CONFIG))
    return path


def write_shards(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Two files and their index."""
    names = sorted(arrays)
    weight_map = {name: SHARDS[index % 2] for index, name in enumerate(names)}
    for shard in SHARDS:
        save_file({n: arrays[n] for n in names if weight_map[n] == shard}, path / shard)
    total = sum(array.nbytes for array in arrays.values())
    write_json(path / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})


def tiny_arrays(config: Mapping[str, Any]) -> Arrays:
    """Random weights, large enough for logits that differ."""
    generator = np.random.default_rng(7)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q_rows, kv_rows = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    sizes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (config["vocab_size"], hidden),
    }
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        sizes |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.self_attn.q_proj.weight": (q_rows, hidden),
            f"{layer}.self_attn.k_proj.weight": (kv_rows, hidden),
            f"{layer}.self_attn.v_proj.weight": (kv_rows, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, q_rows),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.mlp.gate_proj.weight": (inner, hidden),
            f"{layer}.mlp.up_proj.weight": (inner, hidden),
            f"{layer}.mlp.down_proj.weight": (hidden, inner),
        }
    return {
        name: (0.4 * generator.standard_normal(size)).astype(np.float32)
        for name, size in sizes.items()
    }


def tiny_library_tokenizer() -> tokenizers.Tokenizer:
    """What tokenizer.json holds: control tokens and a user-defined one beside the merges."""
    vocab = {token: token_id for token_id, token in enumerate(tiny_tokens())}
    merges = [(left, right) for left, right in (merge.split(" ") for merge in MERGES)]
    library = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(tiny_tokens()[:4])
    library.add_tokens([AddedToken("<think>", normalized=False)])
    return library


def change_json(path: Path, **keys: Any) -> None:
    """Replace or add keys of a JSON file."""
    write_json(path, {**json.loads(path.read_text()), **keys})


def write_json(path: Path, value: object) -> None:
    """One JSON file."""
    path.write_text(json.dumps(value))
