"""A Model whose files cannot work is refused where its path is written, naming the file."""

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.specs.documents import load_documents
from controlplane.specs.installed import INSTALLED_CHECKS
from tests.dataplane.tiny_folder import SHARDS, change_json, write_tiny_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_folder(tmp_path / "tiny")


def problems(artifact: Path | str, **more: Path) -> list[str]:
    text = "kind: Model\nmetadata: {name: tiny}\nspec:\n" + "".join(
        f"  {field}: {{path: {path}}}\n" for field, path in {"artifact": artifact, **more}.items()
    )
    return [str(p) for p in load_documents([("m.yaml", text)], checks=INSTALLED_CHECKS).problems]


def test_a_whole_folder_is_fine(folder: Path) -> None:
    assert problems(folder) == []


def test_a_path_that_is_not_on_this_machine_is_left_to_the_operator(tmp_path: Path) -> None:
    assert problems(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", *SHARDS])
def test_a_missing_file_is_named_at_the_documents_line(folder: Path, file: str) -> None:
    (folder / file).unlink()
    [message] = problems(folder)
    assert message.startswith(f"m.yaml:4:20: spec.artifact.path: {folder / file}: ")
    assert "missing" in message


def test_a_damaged_header_is_named(folder: Path) -> None:
    (folder / SHARDS[0]).write_bytes(b"\xff" * 64)
    [message] = problems(folder)
    assert message.startswith(f"m.yaml:4:20: spec.artifact.path: {folder / SHARDS[0]}: ")
    assert "it is cut off or damaged" in message


def test_an_architecture_that_no_engine_runs_is_refused(folder: Path) -> None:
    change_json(folder / "config.json", model_type="mamba")
    [message] = problems(folder)
    assert f"{folder / 'config.json'}: model_type is 'mamba'; the paged engine runs" in message


def test_tensors_that_do_not_fit_the_config_are_found_before_a_replica_starts(
    folder: Path,
) -> None:
    change_json(folder / "config.json", num_hidden_layers=3)
    [message] = problems(folder)
    assert "its weights lack tensor model.layers.2." in message


def test_every_problem_of_a_folder_is_told_at_once(folder: Path) -> None:
    change_json(folder / "config.json", sliding_window=64)
    change_json(folder / "tokenizer_config.json", chat_template="{% if %}")
    first, second = problems(folder)
    assert "sliding_window is 64, which is not supported" in first
    assert "tokenizer_config.json: the chat template is broken" in second


def test_pickled_weights_are_refused_by_file_name(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    [message] = problems(tmp_path / "pytorch_model.bin")
    assert "pytorch_model.bin: pickled weights run code when they are loaded" in message


def test_a_tokenizer_of_its_own_needs_no_weights(folder: Path, tmp_path: Path) -> None:
    for shard in SHARDS:
        (folder / shard).unlink()
    assert problems(tmp_path / "elsewhere.gguf", tokenizer=folder) == []
    (folder / "tokenizer.json").write_text("{}")
    [message] = problems(tmp_path / "elsewhere.gguf", tokenizer=folder)
    assert message.startswith("m.yaml:5:21: spec.tokenizer.path: ")


def test_checking_a_folder_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; from controlplane.specs.documents import load_documents;"
        "from controlplane.specs.installed import INSTALLED_CHECKS;"
        "text = 'kind: Model\\nmetadata: {name: a}\\n';"
        "text += 'spec: {artifact: {path: ' + sys.argv[1] + '}}';"
        "loaded = load_documents([('m.yaml', text)], checks=INSTALLED_CHECKS);"
        "assert not loaded.problems and loaded.documents, loaded;"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
