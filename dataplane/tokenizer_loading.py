"""From a model's artifact, file or folder, to its tokenizer."""

from pathlib import Path

from dataplane.artifact import ArtifactKind, artifact_kind
from dataplane.folder_vocabulary import load_folder_tokenizer
from dataplane.gguf_vocabulary import load_gguf_tokenizer
from dataplane.tokenizer import Tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Tokenizer and chat template of the artifact; takes about a third of a second.

    Raises OSError when a file cannot be read, and ValueError (ModelFileError, GGUFError),
    which names the file, when it is damaged or of a kind that is not supported.
    """
    if artifact_kind(path) is ArtifactKind.FOLDER:
        return load_folder_tokenizer(path)
    return load_gguf_tokenizer(path)
