"""A room in which control planes come and go; what runs in it ends with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.processes import ProcessDirectory, terminate
from tests.controlplane.operator.room import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.end_control_plane()
    for record in ProcessDirectory(tmp_path / "state").records():
        terminate(record, grace_seconds=0)
    room.database.close()
