"""How long a request waits for its first token on one worker or another: queue and prefill.

A worker that has the beginning of a prompt in its cache computes only the rest. That saves the
cached tokens over the rate of prefill, and so much longer may its queue be before a cold worker
without one is the better choice.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillWait:
    """What a worker holds for one request; the rate is above 0."""

    queue_seconds: float
    """Until the worker would begin."""
    num_uncached_tokens: int
    """Prompt tokens that it would compute."""
    tokens_per_second: float

    @property
    def prefill_seconds(self) -> float:
        """Of the uncached tokens."""
        return self.num_uncached_tokens / self.tokens_per_second

    @property
    def seconds(self) -> float:
        """Until the first token is selected."""
        return self.queue_seconds + self.prefill_seconds


def least_wait(waits: Mapping[str, PrefillWait]) -> str:
    """The worker where the first token comes first; of equal ones, that with the lowest name.

    Raises ValueError without a worker.
    """
    return min(waits, key=lambda name: (waits[name].seconds, name))
