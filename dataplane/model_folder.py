"""A model as Hugging Face lays it out: a folder of JSON files and safetensors.

Everything here is read without torch and without touching weights: a header says which
tensors a file holds, and the `safetensors` library checks it against the file's size. So
the control plane can tell a damaged folder before it is stored, and the engine maps the
tensors later.

Nothing in a folder is trusted: names in its index may not lead out of it, JSON files are
read within a bound, and pickled weights are never opened.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from dataplane.artifact import ModelFileError

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CHAT_TEMPLATE = "chat_template.jinja"
SINGLE_WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"

_MAX_TEXT_BYTES = 64 * 2**20  # the largest vocabularies take a third of it


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """What a header says of one tensor."""

    name: str
    file: Path
    dtype: str
    """As safetensors spells it: F32, BF16, ..."""
    size: tuple[int, ...]
    """Rows first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """A folder whose config and headers are whole."""

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]

    @property
    def config_path(self) -> Path:
        """For messages about a key of it."""
        return self.path / CONFIG


def read_model_folder(path: Path) -> ModelFolder:
    """Read config and headers.

    Raises OSError when a file cannot be read, and ModelFileError for one that is missing,
    damaged or of no use.
    """
    config = read_json(path / CONFIG)
    tensors: dict[str, StoredTensor] = {}
    for file in find_weight_files(path):
        for tensor in read_header(file):
            other = tensors.setdefault(tensor.name, tensor)
            if other is not tensor:
                raise ModelFileError(
                    file, f"tensor {tensor.name} is in {other.file.name} as well; keep one"
                )
    _check_index(path, tensors)
    return ModelFolder(path=path, config=config, tensors=tensors)


def find_weight_files(path: Path) -> tuple[Path, ...]:
    """The safetensors files that make up the weights, each of them there.

    `model.safetensors` is taken first, then the index, then a single file of any name.
    """
    single = path / SINGLE_WEIGHTS
    if single.is_file():
        return (single,)
    if (path / WEIGHTS_INDEX).is_file():
        files = [path / name for name in sorted(set(_read_index(path).values()))]
        for file in files:
            if not file.is_file():
                raise ModelFileError(
                    file, f"this shard is missing, and {WEIGHTS_INDEX} names it; fetch it again"
                )
        return tuple(files)
    found = sorted(path.glob("*.safetensors"))
    if len(found) == 1:
        return (found[0],)
    raise ModelFileError(path, _why_no_weights(path, len(found)))


def read_header(file: Path) -> list[StoredTensor]:
    """The tensors of one file, of which not a byte is read."""
    try:
        with safe_open(file, framework="numpy") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            return [
                StoredTensor(
                    name=name, file=file, dtype=part.get_dtype(), size=tuple(part.get_shape())
                )
                for name, part in slices.items()
            ]
    except SafetensorError as error:
        raise ModelFileError(file, f"it is cut off or damaged: {error}") from error


def find_json(path: Path) -> dict[str, Any]:
    """A JSON file that may be absent: {} then."""
    return read_json(path) if path.exists() else {}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    try:
        value = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ModelFileError(path, f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(path, "it must hold a JSON object")
    return value


def read_text(path: Path) -> str:
    """A text file, within a bound."""
    if not path.exists():
        raise ModelFileError(path, "it is missing; the folder of a model needs it")
    if not path.is_file():
        raise ModelFileError(path, "it is no regular file")
    if path.stat().st_size > _MAX_TEXT_BYTES:
        raise ModelFileError(path, f"it is larger than {_MAX_TEXT_BYTES} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(path, f"it is no UTF-8: {error}") from error


def _read_index(path: Path) -> dict[str, str]:
    """File name by tensor name; every file name stays inside the folder."""
    index = path / WEIGHTS_INDEX
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ModelFileError(index, "it has no weight_map from tensors to files")
    for tensor, name in names.items():
        if not isinstance(name, str) or not _is_plain_name(name):
            raise ModelFileError(
                index,
                f"weight_map puts {tensor} into {name!r}; it must be the name of a .safetensors "
                f"file in this folder",
            )
    return names


def _is_plain_name(name: str) -> bool:
    has_separator = any(character in name for character in "/\\\0")
    return name.endswith(".safetensors") and not has_separator


def _check_index(path: Path, tensors: Mapping[str, StoredTensor]) -> None:
    if (path / SINGLE_WEIGHTS).is_file() or not (path / WEIGHTS_INDEX).is_file():
        return
    for name, file in _read_index(path).items():
        stored = tensors.get(name)
        if stored is None or stored.file.name != file:
            raise ModelFileError(
                path / file, f"{WEIGHTS_INDEX} says that it holds tensor {name}; it does not"
            )


def _why_no_weights(path: Path, num_found: int) -> str:
    if num_found:
        return (
            f"it has {num_found} safetensors files and no {WEIGHTS_INDEX} that says what is in "
            f"which; fetch the index as well"
        )
    if any(_pickles(path)):
        return (
            "its weights are pickled (.bin, .pt), which run code when they are loaded, so they "
            "are never read; convert them to safetensors"
        )
    return f"it has no weights; it needs {SINGLE_WEIGHTS}, or shards with {WEIGHTS_INDEX}"


def _pickles(path: Path) -> Iterable[Path]:
    return (file for pattern in ("*.bin", "*.pt", "*.pth") for file in path.glob(pattern))
