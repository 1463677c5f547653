"""The fast reader agrees with the gguf library and refuses what is no GGUF file."""

from pathlib import Path

import pytest
from gguf import GGUFReader

from dataplane.gguf_metadata import GGUFError, read_gguf_metadata
from tests.dataplane.tiny_gguf import write_tiny_gguf


def test_every_key_equals_what_the_gguf_library_reads(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    expected = {
        name: field.contents()
        for name, field in GGUFReader(path).fields.items()
        if not name.startswith("GGUF.")
    }
    assert read_gguf_metadata(path) == expected


def test_a_file_cut_off_anywhere_in_its_metadata_is_refused(tmp_path: Path) -> None:
    whole = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(0, len(whole) - 32, 97):
        cut.write_bytes(whole[:length])
        with pytest.raises(GGUFError, match=r"cut\.gguf"):
            read_gguf_metadata(cut)


def test_a_file_of_another_kind_is_refused_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(GGUFError, match="starts with b'PK"):
        read_gguf_metadata(path)


def test_a_version_from_the_future_is_refused(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    path.write_bytes(b"GGUF" + (99).to_bytes(4, "little") + path.read_bytes()[8:])
    with pytest.raises(GGUFError, match="version 99"):
        read_gguf_metadata(path)
