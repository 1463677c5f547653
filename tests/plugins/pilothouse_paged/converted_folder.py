"""The demo model's GGUF file, written as the Hugging Face style folder that it came from.

Also a command, for trying a folder by hand: `python -m
tests.plugins.pilothouse_paged.converted_folder MODEL.gguf FOLDER`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import decoders, models, pre_tokenizers

from dataplane.gguf_metadata import read_gguf_metadata
from pilothouse_paged.gguf_tensors import read_tensors

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
_CONTROL = 3


def convert(path: Path, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write `folder` with one file for each third of the layers, and one for the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = read_gguf_metadata(path)
    _write_json(folder / "config.json", _config(metadata))
    _write_json(folder / "generation_config.json", {"eos_token_id": [2, 0]})
    tokens: Any = metadata["tokenizer.ggml.tokens"]
    _write_json(
        folder / "tokenizer_config.json",
        {
            "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
            "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
            "chat_template": metadata["tokenizer.chat_template"],
        },
    )
    _library_tokenizer(metadata).save(str(folder / "tokenizer.json"))
    _write_weights(path, folder, metadata, dtype)
    return folder


def _config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": metadata["llama.embedding_length"],
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": metadata["llama.attention.head_count"],
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "vocab_size": metadata["llama.vocab_size"],
        "max_position_embeddings": metadata["llama.context_length"],
        "rms_norm_eps": 1e-5,
        "rope_theta": metadata["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }


def _write_weights(
    path: Path, folder: Path, metadata: Mapping[str, Any], dtype: torch.dtype
) -> None:
    file_by_name: dict[str, str] = {}
    for number, part in enumerate(_parts(path, metadata, dtype), start=1):
        file = f"model-{number:05}-of-00004.safetensors"
        save_file(part, folder / file, metadata={"format": "pt"})
        file_by_name |= dict.fromkeys(part, file)
    _write_json(folder / "model.safetensors.index.json", {"weight_map": file_by_name})


def _parts(
    path: Path, metadata: Mapping[str, Any], dtype: torch.dtype
) -> Iterator[dict[str, torch.Tensor]]:
    tensors = read_tensors(path)
    per_part = metadata["llama.block_count"] // 3
    for part in range(4):
        yield {
            _stored_name(name): _values(name, tensor, metadata).to(dtype).contiguous()
            for name, tensor in tensors.items()
            if part == (int(name.split(".")[1]) // per_part if name.startswith("blk.") else 3)
        }


def _values(name: str, tensor: gguf.ReaderTensor, metadata: Mapping[str, Any]) -> torch.Tensor:
    values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
    num_heads = {
        "attn_q": metadata["llama.attention.head_count"],
        "attn_k": metadata["llama.attention.head_count_kv"],
    }.get(name.split(".")[-2])
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


def _library_tokenizer(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
    tokens = metadata["tokenizer.ggml.tokens"]
    pairs = [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]]
    library = tokenizers.Tokenizer(
        models.BPE(
            vocab={token: token_id for token_id, token in enumerate(tokens)},
            merges=[(left, right) for left, right in pairs],
        )
    )
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    types = metadata["tokenizer.ggml.token_type"]
    library.add_special_tokens(
        [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    )
    return library


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]), torch.bfloat16)
