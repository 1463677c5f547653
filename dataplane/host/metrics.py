"""Prometheus metrics of one replica process, served over HTTP on a port of their own.

A gauge is set only from what the core says: one that it does not know is absent, never 0.
"""

from wsgiref.simple_server import WSGIServer

from prometheus_client import Counter, Gauge, Histogram, Info, start_http_server

from dataplane import names
from dataplane.engine import EngineStats, ReplicaSpec
from dataplane.metrics_registry import MetricsRegistry

SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip

GAUGES = {
    names.REPLICA_MAX_NUM_SEQS: ("max_num_seqs", "Configured limit of active sequences."),
    names.REPLICA_ACTIVE_SEQUENCES: ("num_running", "Sequences that hold a slot."),
    names.REPLICA_WAITING_REQUESTS: ("num_waiting", "Requests queued inside the engine."),
    names.REPLICA_UNRELEASED_REQUESTS: (
        "num_unreleased", "Requests that finished and still hold something.",
    ),
    names.REPLICA_KV_BLOCKS: ("num_blocks", "KV blocks of the pool."),
    names.REPLICA_KV_BLOCKS_FREE: (
        "num_free_blocks", "KV blocks that could be handed out now, unreferenced cached ones too.",
    ),
    names.REPLICA_KV_BLOCKS_REFERENCED: (
        "num_referenced_blocks", "KV blocks that a request references.",
    ),
    names.REPLICA_KV_BLOCKS_CACHED: ("num_cached_blocks", "KV blocks kept for prefix reuse."),
    names.REPLICA_STEP_PROMPT_TOKENS: (
        "prompt_tokens_scheduled", "Prompt tokens scheduled in the last step.",
    ),
    names.REPLICA_STEP_DECODE_STEPS: (
        "decode_steps_scheduled", "Decode steps scheduled in the last step.",
    ),
}  # fmt: skip
"""Gauge name -> (field of EngineStats, what it says)."""


class HostMetrics:
    """The metrics of one replica. Written by the engine's thread, read by scrapes."""

    def __init__(self, spec: ReplicaSpec) -> None:
        self.registry = MetricsRegistry()
        info = Info(names.REPLICA_INFO, "Which replica this is.", registry=self.registry)
        info.info(
            {
                "replica_id": spec.replica_id,
                "deployment": spec.deployment,
                "engine": spec.engine,
                "model_revision": spec.model_revision,
                "engine_config_revision": spec.engine_config_revision,
            }
        )
        self._gauges: dict[str, Gauge] = {}
        self._num_preemptions_seen = 0
        self.num_input_tokens = self._counter(
            names.REPLICA_INPUT_TOKENS_TOTAL, "Prompt tokens of requests whose work began."
        )
        self.num_output_tokens = self._counter(
            names.REPLICA_OUTPUT_TOKENS_TOTAL,
            "Output tokens selected, up to the end of each answer.",
        )
        self.num_leaks = self._counter(
            names.REPLICA_LEAKED_REQUESTS_TOTAL,
            "Requests not released within the bound after they finished.",
        )
        self._prompt_tokens = self._counter(
            names.REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL,
            "Prompt tokens scheduled over all steps, those computed again included.",
        )
        self._decode_steps = self._counter(
            names.REPLICA_SCHEDULED_DECODE_STEPS_TOTAL, "Decode steps scheduled over all steps."
        )
        self._num_steps = self._counter(names.REPLICA_STEPS_TOTAL, "Engine steps run.")
        self._num_preemptions = self._counter(
            names.REPLICA_PREEMPTIONS_TOTAL, "Sequences preempted."
        )
        self._step_seconds = self._histogram(
            names.REPLICA_STEP_SECONDS, "Duration of a step: schedule, run, and telling of it."
        )
        self.cancel_to_release = self._histogram(
            names.REPLICA_CANCEL_TO_RELEASE_SECONDS,
            "From a cancel, or the loss of the gateway, until everything is reusable.",
        )

    def observe_step(self, seconds: float, stats: EngineStats) -> None:
        """Count one step and what it scheduled, where the core says so."""
        self._num_steps.inc()
        self._step_seconds.observe(seconds)
        self._prompt_tokens.inc(stats.prompt_tokens_scheduled or 0)
        self._decode_steps.inc(stats.decode_steps_scheduled or 0)

    def set_stats(self, stats: EngineStats) -> None:
        """Take over a snapshot of the core."""
        for name, (field, says) in GAUGES.items():
            value = getattr(stats, field)
            if value is not None:
                self._gauge(name, says).set(value)
        if stats.num_preemptions is not None:
            self._num_preemptions.inc(stats.num_preemptions - self._num_preemptions_seen)
            self._num_preemptions_seen = stats.num_preemptions

    def serve(self, host: str) -> tuple[WSGIServer, str]:
        """Serve scrapes from a daemon thread; returns the server and its host:port."""
        server, _ = start_http_server(0, addr=host, registry=self.registry)
        return server, f"{host}:{server.server_port}"

    def _gauge(self, name: str, says: str) -> Gauge:
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, says, registry=self.registry)
        return self._gauges[name]

    def _counter(self, name: str, says: str) -> Counter:
        return Counter(name, says, registry=self.registry)

    def _histogram(self, name: str, says: str) -> Histogram:
        return Histogram(name, says, registry=self.registry, buckets=SECONDS)
