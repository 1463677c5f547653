"""Our own engine: the names and meanings of `dataplane.host.metrics`."""

import json
from collections.abc import Callable
from datetime import datetime

from dataplane import names
from dataplane.engine import EngineStats
from dataplane.host.metrics import GAUGES, SECONDS
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.observer.dialect import (
    Dialect,
    EngineView,
    HistogramSeries,
    Read,
    Series,
)
from dataplane.simulation.observer.exposition import Labels
from dataplane.simulation.observer.measure import Measure


class HostLog:
    """One JSON object a line, as `dataplane.logs` writes them."""

    def stage_ended(self, stage: str, seconds: float, at: datetime) -> list[str]:
        """Nothing: stages are in the status file, and in the line below."""
        return []

    def started(self, view: EngineView, at: datetime) -> list[str]:
        """Once it can answer."""
        seconds = ", ".join(f"{stage} {took:.1f} s" for stage, took in view.start_stages.items())
        said = f"serving; {seconds}" if seconds else "serving"
        return [_line(view, at, "info", "dataplane.host.replica", said)]

    def periodic(self, view: EngineView, at: datetime) -> list[str]:
        """Nothing: the figures are in the metrics."""
        return []

    def preempted(self, view: EngineView, at: datetime) -> list[str]:
        """Nothing: it is an event of the request."""
        return []

    def stuck(self, view: EngineView, at: datetime) -> list[str]:
        """Nothing: the thread that would say it is the one that is stuck."""
        return []

    def leaked(
        self, view: EngineView, request_id: str, held_seconds: float, at: datetime
    ) -> list[str]:
        """Once for each request that is not released within the bound."""
        said = f"request {request_id} finished {held_seconds:.1f} s ago and is not released: a leak"
        return [_line(view, at, "error", "dataplane.host.engine_loop", said)]

    def out_of_memory(self, view: EngineView, num_wanted: int, at: datetime) -> list[str]:
        """The core raised."""
        free = view.stats.num_free_blocks
        error = (
            f"torch.OutOfMemoryError: out of memory: {num_wanted} blocks' worth wanted, {free} free"
        )
        return [_line(view, at, "error", "dataplane.host.replica", "the replica failed", error)]


def _line(
    view: EngineView,
    at: datetime,
    level: str,
    logger: str,
    event: str,
    exception: str | None = None,
) -> str:
    fields = {
        "event": event,
        "process": "replica",
        "replica_id": view.identity.replica_id,
        "deployment": view.identity.deployment,
        "level": level,
        "logger": logger,
        "at": at.isoformat().replace("+00:00", "Z"),
    }
    if exception is not None:
        fields["exception"] = exception
    return json.dumps(fields)


def _stats(view: EngineView) -> EngineStats:
    stats = view.stats
    return EngineStats(
        age_seconds=0.0,
        max_num_seqs=view.config.max_num_seqs,
        num_running=stats.num_running,
        num_waiting=view.num_waiting,
        num_blocks=view.config.num_blocks,
        num_free_blocks=stats.num_free_blocks,
        num_referenced_blocks=stats.num_referenced_blocks,
        num_cached_blocks=stats.num_cached_blocks,
        num_unreleased=stats.num_unreleased + view.num_leaked,
        prompt_tokens_scheduled=view.tally.last_prompt_tokens,
        decode_steps_scheduled=view.tally.last_decode_steps,
    )


def _gauge(field: str) -> Read:
    return lambda view: getattr(_stats(view), field)


def _counter(name: str, says: str, read: Callable[[EngineView], float]) -> Series:
    return Series(name, "counter", says, read)


def _info(view: EngineView) -> dict[Labels, float]:
    identity = view.identity
    labels = {
        "deployment": identity.deployment,
        "engine": identity.engine,
        "engine_config_revision": identity.engine_config_revision,
        "model_revision": identity.model_revision,
        "replica_id": identity.replica_id,
    }
    return {tuple(labels.items()): 1.0}


_SERIES = (
    Series(f"{names.REPLICA_INFO}_info", "gauge", "Which replica this is.", _info),
    _counter(
        names.REPLICA_INPUT_TOKENS_TOTAL,
        "Prompt tokens of requests whose work began.",
        lambda view: view.tally.num_input_tokens,
    ),
    _counter(
        names.REPLICA_OUTPUT_TOKENS_TOTAL,
        "Output tokens selected, up to the end of each answer.",
        lambda view: view.tally.num_output_tokens,
    ),
    _counter(
        names.REPLICA_LEAKED_REQUESTS_TOTAL,
        "Requests not released within the bound after they finished.",
        lambda view: view.num_leaks_reported,
    ),
    _counter(
        names.REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL,
        "Prompt tokens scheduled over all steps, those computed again included.",
        lambda view: view.tally.num_scheduled_prompt_tokens,
    ),
    _counter(
        names.REPLICA_SCHEDULED_DECODE_STEPS_TOTAL,
        "Decode steps scheduled over all steps.",
        lambda view: view.tally.num_scheduled_decode_steps,
    ),
    _counter(names.REPLICA_STEPS_TOTAL, "Engine steps run.", lambda view: view.tally.num_steps),
    _counter(
        names.REPLICA_PREEMPTIONS_TOTAL,
        "Sequences preempted.",
        lambda view: view.tally.num_preemptions,
    ),
    *(Series(name, "gauge", says, _gauge(field)) for name, (field, says) in GAUGES.items()),
)

_HISTOGRAMS = (
    HistogramSeries(
        names.REPLICA_STEP_SECONDS,
        "Duration of a step: schedule, run, and telling of it.",
        Measure.STEP,
        SECONDS,
    ),
    HistogramSeries(
        names.REPLICA_CANCEL_TO_RELEASE_SECONDS,
        "From a cancel, or the loss of the gateway, until everything is reusable.",
        Measure.CANCEL_TO_RELEASE,
        SECONDS,
    ),
)


def _histograms(_config: SchedulerConfig) -> tuple[HistogramSeries, ...]:
    return _HISTOGRAMS


PILOTHOUSE = Dialect(
    name="pilothouse",
    labels=lambda view: (),
    series=_SERIES,
    histograms=_histograms,
    log=HostLog(),
)
