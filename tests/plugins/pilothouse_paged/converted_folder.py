"""The demo model's GGUF file, written as the Hugging Face style folder that it came from.

Also a command, for trying a folder by hand: `python -m
tests.plugins.pilothouse_paged.converted_folder MODEL.gguf FOLDER`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import decoders, models, pre_tokenizers

from dataplane.gguf_metadata import read_gguf_metadata
from tests.plugins.pilothouse_paged.gguf_as_stored import read_as_stored

_CONTROL = 3


def convert(path: Path, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write `folder` with one file for each third of the layers, and one for the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = read_gguf_metadata(path)
    config, tensors = read_as_stored(path)
    _write_json(folder / "config.json", config)
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
    rounded = {name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}
    _write_weights(folder, config["num_hidden_layers"], rounded)
    return folder


def _write_weights(folder: Path, num_layers: int, tensors: Mapping[str, torch.Tensor]) -> None:
    file_by_name: dict[str, str] = {}
    for number, part in enumerate(_parts(num_layers, tensors), start=1):
        file = f"model-{number:05}-of-00004.safetensors"
        save_file(part, folder / file, metadata={"format": "pt"})
        file_by_name |= dict.fromkeys(part, file)
    _write_json(folder / "model.safetensors.index.json", {"weight_map": file_by_name})


def _parts(
    num_layers: int, tensors: Mapping[str, torch.Tensor]
) -> Iterator[dict[str, torch.Tensor]]:
    per_part = num_layers // 3
    for part in range(4):
        yield {
            name: tensor
            for name, tensor in tensors.items()
            if part == (int(name.split(".")[2]) // per_part if ".layers." in name else 3)
        }


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
