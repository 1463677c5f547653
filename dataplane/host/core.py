"""What an engine offers to be hosted as a replica.

An engine core is synchronous and owned by one thread: the host calls `step` in a loop
and everything else between two steps. It knows tokens, not text: the host detokenizes,
matches stop strings and talks to the gateway.
"""

from dataclasses import dataclass
from typing import Protocol

from dataplane.engine import EngineCapabilities, EngineRequest, EngineStats, EngineUse
from dataplane.host.cached_prefixes import CachedPrefixes
from dataplane.lifecycle import Disposition, EventKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScore:
    """How likely a token was, before any request parameter: natural logarithms."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """(token id, logprob) of the likeliest, likeliest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreEvent:
    """One lifecycle event of one request, in core terms. `at` is on the core's clock."""

    request_id: str
    kind: EventKind
    at: float
    sequence: int = 0
    num_tokens: int | None = None
    num_cached_tokens: int | None = None
    token_ids: tuple[int, ...] = ()
    scores: tuple[TokenScore, ...] = ()
    """One for each token id, where the request asked for logprobs."""
    disposition: Disposition | None = None
    reason: str | None = None
    used: EngineUse | None = None
    """RELEASED: what the request took, where the core measures it."""


class EngineCore(Protocol):
    """An engine that runs steps."""

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `load`."""
        ...

    @property
    def cached_prefixes(self) -> CachedPrefixes | None:
        """What of prompts can be found again. Valid after `load`; None: nothing can, or it is not
        told."""
        ...

    @property
    def has_work(self) -> bool:
        """A step would do something: run tokens, or release what finished."""
        ...

    @property
    def compile_seconds(self) -> float | None:
        """How long `load` compiled, in seconds: a stage of the start of its own. Valid after it;
        None: it compiled nothing."""
        ...

    def load(self) -> None:
        """Read the weights and allocate the KV pool.

        Raises ValueError for settings or an artifact that cannot work, with the remedy.
        """
        ...

    def warm_up(self) -> None:
        """Run what the first request should not pay for. Leaves nothing allocated."""
        ...

    def add(self, request: EngineRequest) -> list[CoreEvent]:
        """Queue a request.

        One that can never fit is answered with FINISHED (`error`, with a reason) at once.
        """
        ...

    def finish(
        self, request_id: str, disposition: Disposition, sequence: int | None = None
    ) -> list[CoreEvent]:
        """End a request between two steps (a cancel), or one `sequence` of it (a stop string).

        One FINISHED; [] when nothing was left to end. What it holds is released by the next
        step, or at once when that is nothing. RELEASED comes once, when nothing of the whole
        request is held.
        """
        ...

    def pause(self, request_id: str, is_paused: bool) -> None:
        """Give a request no more steps until it is told to go on (False).

        It keeps what it holds. Called between two steps; unknown and finished ids are no error,
        and neither is what is so already.
        """
        ...

    def schedule(self) -> list[CoreEvent]:
        """First half of a step: retire and release, choose, reserve.

        Its events (RELEASED, SCHEDULED, PREEMPTED, RESUMED) leave before the step runs.
        """
        ...

    def run(self) -> list[CoreEvent]:
        """Second half: run what was scheduled and commit tokens, times and cache state."""
        ...

    def stats(self) -> EngineStats:
        """A snapshot between two steps."""
        ...
