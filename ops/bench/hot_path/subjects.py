"""What is measured side by side: the stub alone, the gateway, and the peers, all in front of the
same stub and all on the same core."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ops.bench.hot_path.gateway_under_test import GatewayUnderTest, gateway_running
from ops.bench.hot_path.litellm_proxy import litellm_running
from ops.bench.hot_path.machine import Cores
from ops.bench.hot_path.server_process import ServerProcess, announced

STUB = "stub"
GATEWAY = "gateway"
PASS_THROUGH = "pass-through"
RELAY = "relay"
LITELLM = "litellm"
SUBJECTS = (STUB, GATEWAY, PASS_THROUGH, RELAY, LITELLM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One thing that answers chats."""

    name: str
    address: str
    """host:port."""
    pids: Mapping[str, int]
    """Of all processes that its figures are made of, by name."""


@dataclass(slots=True, kw_only=True)
class Pace:
    """How the stub answers."""

    num_chunks: int = 64
    seconds: float = 0.005

    @property
    def stream_seconds(self) -> float:
        """How long an answer takes that nothing delays."""
        return (self.num_chunks - 1) * self.seconds

    def options(self) -> list[str]:
        """For the stub's command."""
        return ["--chunks", str(self.num_chunks), "--pace-ms", f"{1e3 * self.seconds:g}"]


@dataclass(slots=True)
class Running:
    """All subjects that could be started, and why others could not."""

    subjects: dict[str, Subject] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    gateway: GatewayUnderTest | None = None


@contextlib.contextmanager
def subjects_running(
    wanted: Collection[str], pace: Pace, cores: Cores, folder: Path, litellm: Path | None = None
) -> Iterator[Running]:
    """Start the stub and whoever is wanted in front of it.

    `litellm`: the virtual environment that it is installed in. Raises NotStartedError.
    """
    with contextlib.ExitStack() as stack:
        stub, at = stack.enter_context(
            announced("stub", "stub_engine", pace.options(), cores.server, folder)
        )
        running = Running()

        def add(name: str, address: str, *processes: ServerProcess) -> None:
            pids = {each.name: each.pid for each in (stub, *processes)}
            running.subjects[name] = Subject(name=name, address=address, pids=pids)

        add(STUB, at["http"])
        if GATEWAY in wanted:
            gateway = stack.enter_context(gateway_running(at["replica"], cores, folder))
            running.gateway = gateway
            add(GATEWAY, gateway.address, gateway.process)
        for name, more in ((PASS_THROUGH, ()), (RELAY, ("--relay",))):
            if name in wanted:
                options = ["--upstream", at["http"], *more]
                proxy, told = stack.enter_context(
                    announced(name, "pass_through", options, cores.server, folder)
                )
                add(name, told["http"], proxy)
        if LITELLM in wanted:
            if litellm is None:
                running.skipped[LITELLM] = "no --litellm VENV was named"
            else:
                proxy, address = stack.enter_context(
                    litellm_running(litellm, at["http"], cores.server, folder)
                )
                add(LITELLM, address, proxy)
        yield running
