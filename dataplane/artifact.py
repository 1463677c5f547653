"""What kind of thing a model's artifact is: the one place that decides.

Gateway, replica host, engine and control plane all ask here, so that a path means the same
to each of them.
"""

from enum import StrEnum
from pathlib import Path

# Files that run code when they are loaded.
_PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})


class ArtifactKind(StrEnum):
    """How weights and tokenizer are kept."""

    GGUF = "gguf"
    """One file that holds everything."""
    FOLDER = "folder"
    """config.json, safetensors files and tokenizer.json, as Hugging Face lays them out."""


class ModelFileError(ValueError):
    """A file of a model that is not what it should be; names the file and what is wrong."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def artifact_kind(path: Path) -> ArtifactKind:
    """Decide by what lies at `path`. Whether a file really is GGUF shows when it is read.

    Raises FileNotFoundError when nothing is there, and ModelFileError for files that are no
    artifact by themselves.
    """
    if path.is_dir():
        return ArtifactKind.FOLDER
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    if not path.is_file():
        raise ModelFileError(path, "it is neither a file nor a folder")
    if path.suffix in _PICKLES:
        raise ModelFileError(
            path,
            "pickled weights run code when they are loaded, so they are never read; convert "
            "them to safetensors or GGUF",
        )
    if path.suffix == ".safetensors":
        raise ModelFileError(
            path, "safetensors hold weights only; name the folder, with its config.json beside them"
        )
    return ArtifactKind.GGUF
