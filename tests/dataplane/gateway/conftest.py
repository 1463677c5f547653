"""What the tests of the gateway share: one scripted replica, and gateways before it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dataplane.gateway import spool as spool_module
from tests.dataplane.gateway.gateway_processes import Place, place_before
from tests.dataplane.gateway.running_gateway import (
    RunningGateway,
    add_replica,
    deployment,
    running_gateway,
    snapshot,
)
from tests.dataplane.gateway.scripted_engine import BLIND, REPLICAS, ScriptedReplica
from tests.dataplane.gateway.spooling import ControlPlane


@pytest.fixture
def replica() -> Iterator[ScriptedReplica]:
    """The only one, at the address `a`."""
    REPLICAS.clear()
    yield add_replica("a", capabilities=BLIND)
    REPLICAS.clear()


@pytest.fixture
async def upstream(tmp_path: Path, replica: ScriptedReplica) -> AsyncIterator[RunningGateway]:
    """A gateway in this process, for a gateway process to send to."""
    async with running_gateway(tmp_path / "upstream", snapshot(deployment("a"))) as running:
        yield running


@pytest.fixture
async def place(tmp_path: Path, upstream: RunningGateway) -> AsyncIterator[Place]:
    """Where gateway processes follow each other, before `upstream`."""
    async with place_before(tmp_path / "gateway", upstream.url) as place:
        yield place


@pytest.fixture
def control_plane() -> ControlPlane:
    """Takes the records of a spool."""
    return ControlPlane()


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spool neither gathers records nor waits after a failure for longer than a moment."""
    monkeypatch.setattr(spool_module, "_FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(spool_module, "_GATHER_SECONDS", 0.01)
