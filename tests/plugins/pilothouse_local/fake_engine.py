"""An engine that is a tiny program: it speaks the status-file protocol and nothing else."""

import sys
from pathlib import Path

from dataplane.engine import EngineUnavailableError, ReplicaSpec

# Reads its spec; `settings.fail` makes it give up while loading, `settings.stubborn` makes it deaf,
# `settings.slow` lets it load for ever.
PROGRAM = """
import json, os, pathlib, signal, sys
spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
status = pathlib.Path(sys.argv[2])
def tell(stage, address=None, error=None):
    scratch = status.with_name("new-status")
    scratch.write_text(json.dumps({"replica_id": spec["replica_id"], "pid": os.getpid(),
        "stage": stage, "address": address, "metrics_address": None,
        "stages": {"load": 0.1}, "error": error}))
    scratch.replace(status)
if spec["settings"].get("fail"):
    tell("failed", error="the weights are missing: install them")
    sys.exit(1)
def drain(*_):
    tell("draining")
    sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if spec["settings"].get("stubborn") else drain)
if spec["settings"].get("slow"):
    tell("load")
    signal.pause()
tell("serving", address="127.0.0.1:4444")
while True:
    signal.pause()
"""


class FakeEngine:
    """Starts the program above."""

    attaches = False

    def __init__(self, folder: Path) -> None:
        self.program = folder / "fake_replica.py"
        self.program.write_text(PROGRAM)
        self.probe_error: str | None = None
        self.num_probes = 0

    def command(self, spec_path: str, status_path: str) -> tuple[str, ...]:
        return (sys.executable, "-S", str(self.program), spec_path, status_path)

    async def probe(self, spec: ReplicaSpec, address: str, timeout_seconds: float) -> float:
        self.num_probes += 1
        if self.probe_error is not None:
            raise EngineUnavailableError(spec.replica_id, self.probe_error)
        return 0.01


def make_spec(replica_id: str, **settings: bool) -> ReplicaSpec:
    return ReplicaSpec(
        replica_id=replica_id,
        deployment="chat",
        engine="fake",
        model_name="tiny",
        model_revision="tiny@1",
        engine_config_revision="fake@1",
        artifact="/weights",
        settings=settings,
    )
