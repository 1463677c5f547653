"""A Model's folder over HTTP: taken when it is whole, refused with nothing stored when not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.config_server import ConfigServer, serve_config
from tests.dataplane.tiny_folder import SHARDS, write_tiny_folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConfigServer]:
    with serve_config(tmp_path) as server:
        yield server


def test_a_broken_folder_is_refused_and_nothing_is_stored(
    server: ConfigServer, tmp_path: Path
) -> None:
    folder = write_tiny_folder(tmp_path / "tiny")
    text = f"kind: Model\nmetadata: {{name: tiny}}\nspec:\n  artifact: {{path: {folder}}}\n"
    body = {"files": [{"name": "model.yaml", "text": text}]}
    shard = (folder / SHARDS[0]).read_bytes()
    (folder / SHARDS[0]).write_bytes(shard[:-1])

    refused = server.http.post("/api/v1/apply", json=body)
    assert refused.status_code == 422
    [problem] = refused.json()["problems"]
    assert (problem["file"], problem["line"]) == ("model.yaml", 4)
    assert problem["message"].startswith(f"{folder / SHARDS[0]}: it is cut off or damaged")
    assert server.http.get("/api/v1/config").json() == []
    assert server.announcements == []

    (folder / SHARDS[0]).write_bytes(shard)
    taken = server.http.post("/api/v1/apply", json=body)
    assert taken.status_code == 200, taken.text
    assert [each["revision"] for each in taken.json()["applied"]] == ["tiny@1"]
