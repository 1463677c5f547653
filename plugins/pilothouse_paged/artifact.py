"""From the path of an artifact to the model's shape and weights."""

from pathlib import Path

from dataplane.artifact import ArtifactKind, artifact_kind
from dataplane.model_folder import read_model_folder
from pilothouse_paged.folder_shape import read_folder_shape
from pilothouse_paged.folder_source import FolderSource
from pilothouse_paged.gguf_shape import read_gguf_shape
from pilothouse_paged.gguf_source import GGUFSource
from pilothouse_paged.shape import LlamaShape
from pilothouse_paged.weights import WeightSource


def open_artifact(path: Path) -> tuple[LlamaShape, WeightSource]:
    """Check everything but the weights' values. Raises OSError, and ValueError naming the file."""
    if artifact_kind(path) is ArtifactKind.FOLDER:
        folder = read_model_folder(path)
        shape = read_folder_shape(folder)
        return shape, FolderSource(folder, shape)
    shape = read_gguf_shape(path)
    return shape, GGUFSource(path, shape)
