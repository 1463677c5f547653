"""A vLLM server that a measurement starts: what it was told, and what it found room for."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from dataplane.engine_metrics.scrape import read_scrape
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.vllm import VLLM
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.fitting.replay import ReplicaBounds
from ops.calibration.process import running, wait_for
from ops.calibration.service import MODEL

_START_SECONDS = 500.0
_SCRAPE_SECONDS = 20.0
_NO_GATEWAY_SLOTS = 1_000_000
"""Nobody waits before vLLM: its own queue is the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmPlan:
    """How to start it."""

    executable: Path
    model: Path
    """A folder of safetensors."""
    max_num_seqs: int
    max_num_batched_tokens: int
    """Prompts that are longer are cut."""
    max_model_len: int
    num_threads: int
    kv_gigabytes: int = 1
    num_kv_blocks: int | None = None
    """Fewer than there is room for. None: as many as it finds room for."""


@dataclass(frozen=True, slots=True)
class VllmServer:
    """It serves."""

    url: str
    bounds: ReplicaBounds

    def scrape(self) -> str:
        """Its metrics, as text. Raises httpx.HTTPError."""
        return _scrape(self.url)


@contextlib.contextmanager
def serving_vllm(plan: VllmPlan, traces_url: str | None, folder: Path) -> Iterator[VllmServer]:
    """Start it, and end it however the block ends. Its spans go to `traces_url`, if anywhere.
    Raises NotStartedError."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log_path = folder / "vllm.log"
    with running(_command(plan, port, traces_url), log_path, _variables(plan)) as process:
        text = wait_for(lambda: _find_scrape(url), process, log_path, _START_SECONDS)
        yield VllmServer(url, read_bounds(text, plan))


def read_bounds(scrape: str, plan: VllmPlan) -> ReplicaBounds:
    """What it was told, and the blocks that its metrics say it has room for. Raises LookupError
    for metrics that do not say it."""
    told = read_scrape(VLLM, scrape, {Signal.KV_BLOCKS, Signal.KV_BLOCK_SIZE})
    num_blocks, block_size = told.count(Signal.KV_BLOCKS), told.count(Signal.KV_BLOCK_SIZE)
    if num_blocks is None or block_size is None:
        raise LookupError(
            f"{VLLM.infos[0].exported} does not say num_gpu_blocks and block_size; without them "
            "nobody knows how many requests it can hold"
        )
    scheduler = SchedulerConfig(
        max_num_seqs=plan.max_num_seqs,
        max_num_batched_tokens=plan.max_num_batched_tokens,
        max_model_len=plan.max_model_len,
        num_blocks=num_blocks,
        block_size=block_size,
    )
    return ReplicaBounds(scheduler=scheduler, num_slots=_NO_GATEWAY_SLOTS)


def free_port() -> int:
    """Free a moment ago, on the loopback."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _command(plan: VllmPlan, port: int, traces_url: str | None) -> list[str]:
    return [
        str(plan.executable), "serve", str(plan.model),
        "--served-model-name", MODEL,
        "--host", "127.0.0.1",
        "--port", str(port),
        "--dtype", "float32",
        "--max-model-len", str(plan.max_model_len),
        "--max-num-seqs", str(plan.max_num_seqs),
        "--max-num-batched-tokens", str(plan.max_num_batched_tokens),
        "--enable-chunked-prefill",
        "--enforce-eager",
        *_traces(traces_url),
        *_blocks(plan),
    ]  # fmt: skip


def _traces(traces_url: str | None) -> tuple[str, ...]:
    return () if traces_url is None else ("--otlp-traces-endpoint", traces_url)


def _blocks(plan: VllmPlan) -> tuple[str, ...]:
    wanted = plan.num_kv_blocks
    return () if wanted is None else ("--num-gpu-blocks-override", str(wanted))


def _variables(plan: VllmPlan) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "vllm",
        "OTEL_BSP_SCHEDULE_DELAY": "500",
        "OMP_NUM_THREADS": str(plan.num_threads),
        "VLLM_CPU_KVCACHE_SPACE": str(plan.kv_gigabytes),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def _find_scrape(url: str) -> str | None:
    try:
        return _scrape(url) if httpx.get(f"{url}/health", timeout=5).is_success else None
    except httpx.HTTPError:
        return None


def _scrape(url: str) -> str:
    answer = httpx.get(f"{url}/metrics", timeout=_SCRAPE_SECONDS)
    return answer.raise_for_status().text
