"""What computes the steps of a `SteppedCore`: a model on its device, or what stands for one.

The core decides, with the scheduler, which tokens are computed; the runner computes them and
selects. It keeps nothing of its own about a request: what it needs to select for a sequence it
makes once, and the core gives it back with every chunk until the sequence is released.
"""

from collections.abc import Collection, Mapping
from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dataplane.engine import EngineRequest
from dataplane.host.core import TokenScore
from dataplane.scheduling.scheduler import ScheduledChunk, StepPlan
from dataplane.scheduling.sequence import Sequence

StateT = TypeVar("StateT")
"""What a runner keeps of one sequence in order to select for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """One token, and what the model said of it, if the request wants to know."""

    token_id: int
    score: TokenScore | None = None


@dataclass(frozen=True, slots=True)
class LiveChunk(Generic[StateT]):
    """A chunk that is to be computed, with what its sequence selects by."""

    chunk: ScheduledChunk
    state: StateT


class Runner(Protocol[StateT]):
    """Computes steps. The core's thread alone calls it."""

    @property
    def vocab_size(self) -> int:
        """Token ids are 0 to this, exclusive."""
        ...

    @property
    def end_token_ids(self) -> Collection[int]:
        """Selecting one of them ends a sequence, unless its request ignores them."""
        ...

    @property
    def parameters(self) -> frozenset[str]:
        """Request parameters that selection honours, beyond those that every engine takes."""
        ...

    @property
    def ledger_lines(self) -> Mapping[str, int] | None:
        """Bytes by line of the memory ledger; None where there is none."""
        ...

    def warm_up(self) -> None:
        """Run what the first request should not pay for. No block is owned yet."""
        ...

    def begin(self, sequence: Sequence, request: EngineRequest, seed: int) -> StateT:
        """What selects for a new sequence of `request`; `seed` is that of all its sequences."""
        ...

    def run(
        self, plan: StepPlan, live: ReadableSequence[LiveChunk[StateT]]
    ) -> Mapping[int, Selected]:
        """Compute `live`, the chunks of `plan` whose sequences did not end meanwhile: at least one.

        Returns what was selected, by sequence id, for each of them that selects. When this
        raises, the same plan may be run again, and must select the same tokens.
        """
        ...
