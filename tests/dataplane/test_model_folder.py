"""A folder is read without trust: nothing outside it, nothing pickled, nothing damaged."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dataplane.artifact import ArtifactKind, ModelFileError, artifact_kind
from dataplane.model_folder import find_weight_files, read_model_folder
from tests.dataplane.tiny_folder import (
    CONFIG,
    INDEX,
    SHARDS,
    change_json,
    tiny_arrays,
    write_json,
    write_tiny_folder,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_folder(tmp_path / "folder")


def _set_header_length(file: Path, length: int) -> None:
    with file.open("r+b") as opened:
        opened.write(struct.pack("<Q", length))


def _move_first_tensor(file: Path) -> None:
    """Its offsets now reach beyond the end of the file."""
    data = file.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    first = next(name for name in header if name != "__metadata__")
    header[first]["data_offsets"] = [10**9, 10**9 + 8]
    changed = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(changed)) + changed + data[8 + length :])


def test_headers_say_what_every_shard_holds(folder: Path) -> None:
    found = read_model_folder(folder)
    assert {name: tensor.size for name, tensor in found.tensors.items()} == {
        name: array.shape for name, array in tiny_arrays(CONFIG).items()
    }
    assert {tensor.dtype for tensor in found.tensors.values()} == {"F32"}
    assert {tensor.file.name for tensor in found.tensors.values()} == set(SHARDS)
    assert found.config["model_type"] == "llama"


def test_reading_a_folder_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from dataplane.model_folder import read_model_folder;"
        "from dataplane.tokenizer_loading import load_tokenizer;"
        "read_model_folder(Path(sys.argv[1])); load_tokenizer(Path(sys.argv[1]));"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_a_single_file_goes_before_an_index(folder: Path) -> None:
    (folder / SHARDS[0]).rename(folder / "model.safetensors")
    assert find_weight_files(folder) == (folder / "model.safetensors",)


def test_a_single_file_may_have_any_name(folder: Path) -> None:
    (folder / INDEX).unlink()
    (folder / SHARDS[0]).unlink()
    assert find_weight_files(folder) == (folder / SHARDS[1],)


def test_files_may_be_links_as_in_a_download_cache(folder: Path, tmp_path: Path) -> None:
    (folder / SHARDS[0]).rename(tmp_path / "blob")
    (folder / SHARDS[0]).symlink_to(tmp_path / "blob")
    assert len(read_model_folder(folder).tensors) == len(tiny_arrays(CONFIG))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda file: _set_header_length(file, 10**7), "invalid header length"),
        (lambda file: _set_header_length(file, 2**63), "header too large"),
        (lambda file: _set_header_length(file, 20), "invalid JSON in header"),
        (_move_first_tensor, "invalid offset for tensor"),
        (lambda file: os.truncate(file, file.stat().st_size - 1), "not fully covered"),
        (lambda file: os.truncate(file, 3), "header too small"),
        (lambda file: file.write_bytes(b"PK\x03\x04" + bytes(100)), "invalid header length"),
    ],
)
def test_a_damaged_shard_is_named(
    folder: Path, damage: Callable[[Path], object], says: str
) -> None:
    damage(folder / SHARDS[1])
    with pytest.raises(ModelFileError, match=f"{SHARDS[1]}: it is cut off or damaged: .*{says}"):
        read_model_folder(folder)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "../x.safetensors", "a\0.safetensors", "x.bin", 7]
)
def test_an_index_cannot_lead_out_of_the_folder(folder: Path, name: object) -> None:
    write_json(folder / INDEX, {"weight_map": {"lm_head.weight": name}})
    with pytest.raises(ModelFileError, match=f"{INDEX}: weight_map puts lm_head.weight into"):
        read_model_folder(folder)


@pytest.mark.parametrize("index", [{}, {"weight_map": []}, {"weight_map": {}}])
def test_an_index_without_a_map_is_refused(folder: Path, index: dict[str, object]) -> None:
    write_json(folder / INDEX, index)
    with pytest.raises(ModelFileError, match="has no weight_map"):
        read_model_folder(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / SHARDS[0]).unlink()
    with pytest.raises(ModelFileError, match=f"{SHARDS[0]}: this shard is missing"):
        read_model_folder(folder)


def test_an_index_that_is_wrong_about_a_tensor_is_told_so(folder: Path) -> None:
    names = json.loads((folder / INDEX).read_text())["weight_map"]
    other = {SHARDS[0]: SHARDS[1], SHARDS[1]: SHARDS[0]}
    moved = {**names, "lm_head.weight": other[names["lm_head.weight"]]}
    write_json(folder / INDEX, {"weight_map": moved})
    with pytest.raises(ModelFileError, match=r"says that it holds tensor lm_head\.weight"):
        read_model_folder(folder)


def test_a_tensor_in_two_shards_is_refused(folder: Path) -> None:
    (folder / SHARDS[1]).write_bytes((folder / SHARDS[0]).read_bytes())
    with pytest.raises(ModelFileError, match=r"is in model-00001-of-00002\.safetensors as well"):
        read_model_folder(folder)


def test_shards_without_an_index_are_refused(folder: Path) -> None:
    (folder / INDEX).unlink()
    with pytest.raises(ModelFileError, match=f"has 2 safetensors files and no {INDEX}"):
        read_model_folder(folder)


def test_pickled_weights_are_never_opened(folder: Path) -> None:
    for file in (folder / INDEX, *(folder / shard for shard in SHARDS)):
        file.unlink()
    with pytest.raises(ModelFileError, match=r"no weights; it needs model\.safetensors"):
        read_model_folder(folder)
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(ModelFileError, match=r"pickled .*convert them to safetensors"):
        read_model_folder(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pytorch_model.bin", "run code when they are loaded"),
        ("model.pt", "run code when they are loaded"),
        ("model.safetensors", "name the folder"),
    ],
)
def test_a_weights_file_by_itself_is_no_artifact(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ModelFileError, match=says):
        artifact_kind(tmp_path / name)


def test_what_lies_at_a_path_decides_its_kind(folder: Path, tmp_path: Path) -> None:
    assert artifact_kind(folder) is ArtifactKind.FOLDER
    (tmp_path / "x.gguf").touch()
    assert artifact_kind(tmp_path / "x.gguf") is ArtifactKind.GGUF
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        artifact_kind(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="neither a file nor a folder"):
        artifact_kind(tmp_path / "pipe")


def test_a_config_that_is_no_file_blocks_nobody(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ModelFileError, match=r"config\.json: it is missing"):
        read_model_folder(folder)
    os.mkfifo(folder / "config.json")
    with pytest.raises(ModelFileError, match=r"config\.json: it is no regular file"):
        read_model_folder(folder)


def test_a_config_without_end_is_not_read(folder: Path) -> None:
    os.truncate(folder / "config.json", 2**40)
    with pytest.raises(ModelFileError, match="larger than"):
        read_model_folder(folder)


def test_a_changed_config_is_what_is_read(folder: Path) -> None:
    change_json(folder / "config.json", rope_theta=5)
    assert read_model_folder(folder).config["rope_theta"] == 5
