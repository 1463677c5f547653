"""What vLLM's metrics say of its state. Pure."""

from dataplane.engine import EngineStats
from dataplane.engine_metrics import signals
from dataplane.engine_metrics.scrape import Scrape, whole
from dataplane.engine_metrics.vllm import VLLM

_CONFIG = VLLM.of_signal(signals.KV_CONFIG)[0].exported
_STEPS = f"{VLLM.of_signal(signals.STEP_TOKENS)[0].exported}_count"
_READ = (signals.RUNNING, signals.WAITING, signals.KV_USED_RATIO, signals.PREEMPTIONS)
NAMES = frozenset({_CONFIG, _STEPS, *(s.exported for each in _READ for s in VLLM.of_signal(each))})
"""Of the samples that are read."""


def read_stats(scrape: Scrape) -> EngineStats:
    """Engines behind one server (data parallel) are added up; a number that one of them does not
    tell is told by none."""
    num_blocks = _sum(scrape, [_blocks(scrape, part) for part in scrape.parts])
    used = _sum(scrape, [_used_blocks(scrape, part) for part in scrape.parts])
    free = None if num_blocks is None or used is None else max(0, num_blocks - used)
    return EngineStats(
        age_seconds=0.0,
        num_running=whole(scrape.newest(signals.RUNNING)),
        num_waiting=whole(scrape.newest(signals.WAITING)),
        num_blocks=num_blocks,
        block_size=_label(scrape, "block_size", scrape.parts[0]),
        num_free_blocks=free,
        num_referenced_blocks=used,
        num_steps=whole(scrape.total(_STEPS)),
        num_preemptions=whole(scrape.newest(signals.PREEMPTIONS)),
    )


def _blocks(scrape: Scrape, part: str) -> int | None:
    return _label(scrape, "num_gpu_blocks", part)


def _used_blocks(scrape: Scrape, part: str) -> int | None:
    """The ratio is of all blocks but the one that stands for none."""
    num_blocks, ratio = _blocks(scrape, part), scrape.newest(signals.KV_USED_RATIO, part)
    if num_blocks is None or ratio is None or not 0 <= ratio <= 1:
        return None
    return round(ratio * (num_blocks - 1))


def _label(scrape: Scrape, label: str, part: str) -> int | None:
    said = scrape.label(_CONFIG, label, part)
    return int(said) if said is not None and said.isascii() and said.isdigit() else None


def _sum(scrape: Scrape, numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(scrape.parts) else None
