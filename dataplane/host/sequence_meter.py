"""What one sequence takes of its engine, added up step by step."""

from collections.abc import Iterable

from dataplane.engine import EngineUse


class SequenceMeter:
    """Seconds of steps, and blocks times seconds. Times are on one clock."""

    __slots__ = ("_num_blocks", "_since", "block_seconds", "engine_seconds")

    def __init__(self) -> None:
        self.engine_seconds = 0.0
        self.block_seconds = 0.0
        self._num_blocks = 0
        self._since = 0.0  # so many blocks are held since then, and not added yet

    def count_step(
        self, seconds: float, num_blocks: int, started_at: float, ended_at: float
    ) -> None:
        """It took so much of a step, for which it held so many blocks, and it holds them still."""
        self.engine_seconds += seconds
        self.block_seconds += self._num_blocks * (started_at - self._since)
        self.block_seconds += num_blocks * (ended_at - started_at)
        self._num_blocks, self._since = num_blocks, ended_at

    def drop_blocks(self, now: float) -> None:
        """They were taken from it, or given back."""
        self.block_seconds += self._num_blocks * (now - self._since)
        self._num_blocks, self._since = 0, now


def sum_of(meters: Iterable[SequenceMeter]) -> EngineUse:
    """Of one request."""
    engine_seconds = block_seconds = 0.0
    for meter in meters:
        engine_seconds += meter.engine_seconds
        block_seconds += meter.block_seconds
    return EngineUse(engine_seconds=engine_seconds, kv_block_seconds=block_seconds)
