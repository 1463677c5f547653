"""How vLLM writes its log."""

from datetime import datetime

from dataplane.simulation.observer.dialect import EngineView


class VllmLog:
    """V1: two processes, each line with its name."""

    def stage_ended(self, stage: str, seconds: float, at: datetime) -> list[str]:
        """Weights, compiling, and all that comes behind."""
        said = {
            "load": ("default_loader.py:384", f"Loading weights took {seconds:.2f} seconds"),
            "compile": ("monitor.py:53", f"torch.compile took {seconds:.2f} s in total"),
            "warm_up": (
                "core.py:299",
                f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} s",
            ),
        }
        return [_core(at, *said[stage])] if stage in said else []

    def started(self, view: EngineView, at: datetime) -> list[str]:
        """The size of the cache, and that it is up."""
        config = view.config
        sizes = f"GPU KV cache size: {config.num_slots:,} tokens"
        concurrency = (
            f"Maximum concurrency for {config.max_model_len:,} tokens per request: "
            f"{config.num_slots / config.max_model_len:.2f}x"
        )
        return [
            _core(at, "kv_cache_utils.py:1316", sizes),
            _core(at, "kv_cache_utils.py:1321", concurrency),
            "(APIServer pid=1) INFO:     Application startup complete.",
        ]

    def periodic(self, view: EngineView, at: datetime) -> list[str]:
        """From the second interval without a token on it is silent, whatever waits."""
        if view.rates.num_idle > 1:
            return []
        return [
            f"(APIServer pid=1) INFO {_stamp(at)} [loggers.py:271] Engine 000: "
            f"Avg prompt throughput: {view.rates.prompt_per_s:.1f} tokens/s, "
            f"Avg generation throughput: {view.rates.output_per_s:.1f} tokens/s, "
            f"Running: {view.num_running} reqs, Waiting: {view.num_waiting} reqs, "
            f"GPU KV cache usage: {100 * view.active_share:.1f}%, "
            f"Prefix cache hit rate: {100 * view.rates.hit_rate:.1f}%"
        ]

    def preempted(self, view: EngineView, at: datetime) -> list[str]:
        """V1 only counts."""
        return []

    def stuck(self, view: EngineView, at: datetime) -> list[str]:
        """The worker does not answer."""
        said = (
            "No available shared memory broadcast block found in 60 seconds. This typically "
            "happens when some processes are hanging or doing some time-consuming work "
            "(e.g. compilation)."
        )
        return [_core(at, "shm_broadcast.py:466", said)]

    def leaked(
        self, view: EngineView, request_id: str, held_seconds: float, at: datetime
    ) -> list[str]:
        """It does not know."""
        return []

    def out_of_memory(self, view: EngineView, num_wanted: int, at: datetime) -> list[str]:
        """The core dies, and the server with it."""
        error = (
            "(EngineCore pid=2) torch.OutOfMemoryError: CUDA out of memory. "
            f"Tried to allocate {num_wanted * view.config.block_size * _KV_MIB:.2f} MiB."
        )
        return [
            f"(EngineCore pid=2) ERROR {_stamp(at)} [core.py:1136] EngineCore encountered a fatal "
            f"error.",
            error,
            f"(APIServer pid=1) ERROR {_stamp(at)} [async_llm.py:480] AsyncLLM output_handler "
            f"failed.",
            "(APIServer pid=1) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered "
            "an issue. See stack trace (above) for the root cause.",
        ]


class VllmV0Log(VllmLog):
    """V0: one process, pending and swapped requests, a warning at every fiftieth preemption."""

    def periodic(self, view: EngineView, at: datetime) -> list[str]:
        """From the second interval without a token on it is silent, whatever waits."""
        if view.rates.num_idle > 1:
            return []
        return [
            f"INFO {_stamp(at)} metrics.py:396] "
            f"Avg prompt throughput: {view.rates.prompt_per_s:.1f} tokens/s, "
            f"Avg generation throughput: {view.rates.output_per_s:.1f} tokens/s, "
            f"Running: {view.num_running} reqs, Swapped: 0 reqs, "
            f"Pending: {view.num_waiting} reqs, "
            f"GPU KV cache usage: {100 * view.active_share:.1f}%, CPU KV cache usage: 0.0%."
        ]

    def preempted(self, view: EngineView, at: datetime) -> list[str]:
        """At the first and every fiftieth, as V0 does."""
        lines = []
        last = view.tally.num_preemptions
        for number, sequence in enumerate(
            view.tally.last_preempted, start=last - len(view.tally.last_preempted)
        ):
            if number % 50 == 0:
                lines.append(
                    f"WARNING {_stamp(at)} scheduler.py:1057] Sequence group "
                    f"{sequence.request_id} is preempted by PreemptionMode.RECOMPUTE mode because "
                    f"there is not enough KV cache space. This can affect the end-to-end "
                    f"performance. Increase gpu_memory_utilization or tensor_parallel_size to "
                    f"provide more KV cache memory. total_num_cumulative_preemption={number + 1}"
                )
        return lines


_KV_MIB = 0.125
"""Of one token of an 8B model."""


def _stamp(at: datetime) -> str:
    return at.strftime("%m-%d %H:%M:%S")


def _core(at: datetime, place: str, said: str) -> str:
    return f"(EngineCore pid=2) INFO {_stamp(at)} [{place}] {said}"
