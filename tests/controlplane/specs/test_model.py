"""Artifacts are found where they are, and never imported."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from controlplane.specs.model import Artifact, ArtifactError, ModelSpec


def test_a_file_in_a_package_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "carries_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = ModelSpec(artifact=Artifact(package="carries_weights", file="model.gguf"))

    assert spec.resolve_artifact() == str(package / "model.gguf")
    assert "carries_weights" not in sys.modules


def test_a_missing_package_says_how_to_get_it() -> None:
    artifact = Artifact(package="no_such_package_anywhere", file="x")

    with pytest.raises(
        ArtifactError, match=r"no_such_package_anywhere is not installed.*pip install"
    ):
        artifact.resolve()


def test_a_module_that_is_no_package_carries_no_files() -> None:
    with pytest.raises(ArtifactError, match="is not installed"):
        Artifact(package="bisect", file="x").resolve()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.gguf"

    with pytest.raises(ArtifactError, match=f"{missing} does not exist"):
        Artifact(path=str(missing)).resolve()


def test_an_endpoint_is_its_address() -> None:
    endpoint = Artifact(url="http://127.0.0.1:9/v1/")

    assert ModelSpec(artifact=endpoint).resolve_artifact() == "http://127.0.0.1:9/v1"


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValidationError) as refused:
        Artifact(url="https://ana:hunter2@engine.example/v1")

    said = [error["msg"] for error in refused.value.errors()]
    assert "api_key_file" in said[0]
    assert "hunter2" not in said[0]
