"""Which tensors of a folder are which of the architecture, checked. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dataplane.artifact import ModelFileError
from dataplane.model_folder import ModelFolder, StoredTensor, read_model_folder
from pilothouse_paged.folder_shape import read_folder_shape
from pilothouse_paged.shape import LlamaShape

_DTYPES = ("F32", "F16", "BF16")
_EMBEDDING, _OUTPUT = "token_embd", "output"

_STORED_NAMES = {
    _EMBEDDING: "model.embed_tokens.weight",
    "output_norm": "model.norm.weight",
    _OUTPUT: "lm_head.weight",
}
_STORED_PARTS = {
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


@dataclass(frozen=True, slots=True)
class FolderTensors:
    """Every tensor of the architecture, by the names of `LlamaShape.tensor_sizes`."""

    is_tied: bool
    tensors: Mapping[str, StoredTensor]


def check_folder(path: Path) -> None:
    """Raises OSError, and ModelFileError for what the engine cannot run."""
    folder = read_model_folder(path)
    find_tensors(folder, read_folder_shape(folder))


def find_tensors(folder: ModelFolder, shape: LlamaShape) -> FolderTensors:
    """Raises ModelFileError for tensors that are missing, of the wrong size or dtype, or of no
    use to this architecture."""
    is_tied = _is_tied(folder)
    unused = {name for name in folder.tensors if not _is_ignored(name, is_tied)}
    found: dict[str, StoredTensor] = {}
    for name, size in shape.tensor_sizes(is_tied=is_tied):
        tensor = folder.tensors.get(_stored_name(name))
        if tensor is None:
            raise ModelFileError(folder.path, f"its weights lack tensor {_stored_name(name)}")
        _check(tensor, size)
        found[name] = tensor
        unused.discard(tensor.name)
    if unused:
        first = folder.tensors[min(unused)]
        raise ModelFileError(
            first.file,
            f"{len(unused)} tensors are of no use to this architecture, such as {first.name}: "
            f"the model needs another engine",
        )
    return FolderTensors(is_tied, found)


def _is_tied(folder: ModelFolder) -> bool:
    value = folder.config.get("tie_word_embeddings", False)
    if not isinstance(value, bool):
        raise ModelFileError(
            folder.config_path, f"tie_word_embeddings is {value!r}; it must be true or false"
        )
    return value


def _is_ignored(name: str, is_tied: bool) -> bool:
    """A copy of the tied embedding, and tables that older folders keep and the engine computes."""
    is_copy = is_tied and name == _STORED_NAMES[_OUTPUT]
    return is_copy or name.endswith(".rotary_emb.inv_freq")


def _stored_name(name: str) -> str:
    if name in _STORED_NAMES:
        return _STORED_NAMES[name]
    _, index, part = name.split(".")
    return f"model.layers.{index}.{_STORED_PARTS[part]}.weight"


def _check(tensor: StoredTensor, size: tuple[int, ...]) -> None:
    if tensor.size != size:
        raise ModelFileError(
            tensor.file, f"tensor {tensor.name} is {tensor.size}, but config.json makes it {size}"
        )
    if tensor.dtype not in _DTYPES:
        raise ModelFileError(
            tensor.file,
            f"tensor {tensor.name} is of dtype {tensor.dtype}; supported: {', '.join(_DTYPES)}",
        )
