"""What a request took of engines: told by them, or worked out from who was there beside it."""

from dataclasses import dataclass

from dataplane.engine import EngineUse
from dataplane.lifecycle import Observability


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """Of one request, all its attempts together."""

    engine_seconds: float
    """Of replicas' time. `observed`: its part of each step, as the engine measured it.
    `inferred`: as if the replica had shared its time evenly among what this gateway had on it."""
    engine_observability: Observability
    kv_block_seconds: float | None
    """Blocks of KV cache times how long they were held; None: nobody shows that."""


class Metering:
    """Adds the attempts of one request up."""

    __slots__ = ("_engine_seconds", "_is_told", "_kv_block_seconds", "_num_attempts")

    def __init__(self) -> None:
        self._num_attempts = 0
        self._engine_seconds = 0.0
        self._kv_block_seconds: float | None = 0.0
        self._is_told = True

    def add(self, used: EngineUse | None, shared_seconds: float) -> None:
        """One attempt is over. `used` is what its engine told, if it did; `shared_seconds` what
        counts where it did not: it is lost, or does not measure."""
        self._num_attempts += 1
        self._engine_seconds += shared_seconds if used is None else used.engine_seconds
        self._is_told = self._is_told and used is not None
        blocks = None if used is None else used.kv_block_seconds
        if blocks is None or self._kv_block_seconds is None:
            self._kv_block_seconds = None  # a part of it would pass for the whole
        else:
            self._kv_block_seconds += blocks

    @property
    def total(self) -> Metered | None:
        """None: nothing was ever submitted."""
        if not self._num_attempts:
            return None
        return Metered(
            engine_seconds=self._engine_seconds,
            engine_observability=(
                Observability.OBSERVED if self._is_told else Observability.INFERRED
            ),
            kv_block_seconds=self._kv_block_seconds,
        )
