"""The core of an engine that runs steps: a scheduler that decides, a runner that computes, and
what they tell.

A step is `schedule` (retire, choose, reserve) and `run` (compute, select, commit). Tokens
are text nowhere here: stop strings are the host's business, end tokens are this module's.
"""

import abc
import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Generic

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineCapabilities, EngineRequest, EngineStats
from dataplane.host.active_request import ActiveRequest
from dataplane.host.cached_prefixes import CachedPrefixes
from dataplane.host.core import CoreEvent
from dataplane.host.core_events import CoreEvents
from dataplane.host.request_problem import find_problem
from dataplane.host.request_table import RequestTable
from dataplane.host.runner import LiveChunk, Runner, Selected, StateT
from dataplane.host.step_outcome import StepOutcome
from dataplane.lifecycle import Disposition, Observability
from dataplane.scheduling.scheduler import ScheduledChunk, Scheduler, SchedulerConfig, StepPlan

_OWN_PARAMETERS = frozenset({"ignore_eos", "n"})
"""Honoured here, whatever the runner."""


def draw_seed() -> int:
    """For a request that names none."""
    return secrets.randbits(64)


class CoreStateError(Exception):
    """A call that cannot come now: a bug in the caller."""


@dataclass(frozen=True, slots=True)
class _Loaded(Generic[StateT]):
    runner: Runner[StateT]
    scheduler: Scheduler
    requests: RequestTable[StateT]
    outcome: StepOutcome[StateT]


class SteppedCore(abc.ABC, Generic[StateT]):
    """EngineCore over a Runner (see dataplane.host.core). An engine adds `load`."""

    def __init__(
        self,
        engine: str,
        *,
        shares_prefixes: bool,
        clock: MonotonicClock,
        draw_seed: Callable[[], int] = draw_seed,
    ) -> None:
        """`shares_prefixes`: requests reuse each other's KV, within their isolation key."""
        self._engine = engine
        self._shares_prefixes = shares_prefixes
        self._draw_seed = draw_seed
        self._events = CoreEvents(clock)
        self._loaded: _Loaded[StateT] | None = None
        self.cached_prefixes: CachedPrefixes | None = None
        self.compile_seconds: float | None = None
        """Set by `load` where it compiled."""
        self._sequence_ids = itertools.count()
        self._plan = StepPlan()
        self._is_plan_pending = False
        self._step_started_at = 0.0

    @abc.abstractmethod
    def load(self) -> None:
        """Make the runner, and `begin_with` it. Raises OSError and ValueError with the remedy."""

    def begin_with(self, runner: Runner[StateT], bounds: SchedulerConfig) -> None:
        """Serve with a runner that is loaded: what `load` ends with.

        Blocks are kept for reuse whatever the engine's settings say, because the sequences of
        one request share its prompt. See `_isolation_key`.
        """
        if not bounds.is_prefix_caching:
            raise CoreStateError("sequences of a request share blocks: set is_prefix_caching")
        scheduler = Scheduler(bounds)
        if self._shares_prefixes:  # else nobody finds anything of another request
            self.cached_prefixes = CachedPrefixes(bounds.block_size)
            scheduler.watch_cache(self.cached_prefixes)
        requests: RequestTable[StateT] = RequestTable(scheduler)
        outcome = StepOutcome(self._events, scheduler, requests)
        self._loaded = _Loaded(runner, scheduler, requests, outcome)

    @property
    def scheduler(self) -> Scheduler:
        """Valid after `load`; for looking, not for changing."""
        return self._require().scheduler

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `load`."""
        loaded = self._require()
        bounds = loaded.scheduler.config
        return EngineCapabilities(
            engine=self._engine,
            version=version("pilothouse"),
            takes_token_ids=True,
            max_model_len=bounds.max_model_len,
            max_num_seqs=bounds.max_num_seqs,
            prefill=Observability.OBSERVED,
            decode=Observability.OBSERVED,
            cleanup=Observability.OBSERVED,
            token_counts=Observability.OBSERVED,
            cached_tokens=Observability.OBSERVED,
            parameters=_OWN_PARAMETERS | loaded.runner.parameters,
        )

    @property
    def has_work(self) -> bool:
        """Something runs, waits, or is to be released."""
        return self._is_plan_pending or self._require().scheduler.has_work

    def warm_up(self) -> None:
        """Run steps outside the scheduler. Only before the first request."""
        loaded = self._require()
        if loaded.scheduler.has_work or loaded.scheduler.stats.num_steps:
            raise CoreStateError("warm_up writes into blocks that requests may own by now")
        loaded.runner.warm_up()

    def add(self, request: EngineRequest) -> list[CoreEvent]:
        """Queue a request, or end it at once with the reason why it can never run.

        Raises CoreStateError for an id that is not released yet.
        """
        loaded = self._require()
        if request.request_id in loaded.requests:
            raise CoreStateError(f"request {request.request_id} is still here; use a new id")
        problem = find_problem(request, loaded.runner.vocab_size)
        if problem is not None:
            return [self._events.end(request.request_id, Disposition.INVALID, problem)]
        seed = request.sampling.seed
        active = ActiveRequest(
            request=request,
            seed=self._draw_seed() if seed is None else seed,
            isolation_key=self._isolation_key(request),
            runner=loaded.runner,
            sequence_ids=self._sequence_ids,
        )
        refusal = loaded.requests.add(active)
        if refusal is not None:
            return [self._events.end(request.request_id, Disposition.ERROR, refusal.reason)]
        return []

    def finish(
        self, request_id: str, disposition: Disposition, sequence: int | None = None
    ) -> list[CoreEvent]:
        """End a request, or one sequence of it, between two steps; [] when nothing is left to end.

        A first sequence that ends before its prompt is computed takes its followers along. The
        next step releases them.
        """
        if not self._require().requests.end(request_id, sequence):
            return []
        return [self._events.end(request_id, disposition, sequence=sequence or 0)]

    def pause(self, request_id: str, is_paused: bool) -> None:
        """No sequence of the request is in a step until it goes on; it keeps slots and blocks."""
        self._require().requests.pause(request_id, is_paused)

    def schedule(self) -> list[CoreEvent]:
        """Retire, choose and reserve.

        After a `run` that raised this chooses nothing: `run` is to be called again, for
        what was not finished meanwhile.
        """
        loaded = self._require()
        if self._is_plan_pending:
            return []
        self._step_started_at = self._events.now()
        self._plan = plan = loaded.scheduler.schedule()
        self._is_plan_pending = not plan.is_empty
        return list(loaded.outcome.of_plan(plan))

    def run(self) -> list[CoreEvent]:
        """Compute what was scheduled, select tokens and commit.

        When this raises, nothing was committed and the plan stands: what was selected is
        forgotten, blocks stay reserved, and calling again repeats the step.
        """
        if not self._is_plan_pending:
            return []
        loaded = self._require()
        plan = self._plan
        live = [chunk for chunk in plan.chunks if not chunk.sequence.is_finished]
        selected = self._compute(loaded, live)
        token_ids = {sequence_id: s.token_id for sequence_id, s in selected.items()}
        at_limit = {s.sequence_id for s in loaded.scheduler.commit(plan, token_ids)}
        self._is_plan_pending = False
        outcome = loaded.outcome
        outcome.count_step(live, self._step_started_at)
        return [event for chunk in live for event in outcome.of_chunk(chunk, selected, at_limit)]

    def stats(self) -> EngineStats:
        """A snapshot between two steps."""
        loaded = self._require()
        bounds, stats = loaded.scheduler.config, loaded.scheduler.stats
        return EngineStats(
            age_seconds=0.0,
            max_num_seqs=bounds.max_num_seqs,
            num_running=stats.num_running,
            num_waiting=stats.num_waiting,
            num_blocks=bounds.num_blocks,
            block_size=bounds.block_size,
            num_free_blocks=stats.num_free_blocks,
            num_referenced_blocks=stats.num_referenced_blocks,
            num_cached_blocks=stats.num_cached_blocks,
            num_evictable_blocks=stats.num_evictable_blocks,
            num_unreleased=stats.num_unreleased,
            num_steps=stats.num_steps,
            prompt_tokens_scheduled=self._plan.num_prompt_tokens,
            decode_steps_scheduled=self._plan.num_decode_steps,
            num_preemptions=stats.num_preemptions,
            blocked_on=self._plan.blocked_on if loaded.scheduler.has_work else None,
            ledger=loaded.runner.ledger_lines,
        )

    def check_integrity(self) -> None:
        """Raises AssertionError when requests, sequences, blocks and prefix cache disagree."""
        self._require().requests.check_integrity()
        if self.cached_prefixes is not None:
            self.cached_prefixes.check_integrity()

    def _compute(
        self, loaded: _Loaded[StateT], live: list[ScheduledChunk]
    ) -> Mapping[int, Selected]:
        """Token by sequence id, for each live chunk that selects one."""
        if not live:
            return {}
        requests = loaded.requests
        return loaded.runner.run(
            self._plan,
            [
                LiveChunk(chunk, requests.owner_of(chunk.sequence).state_of(chunk.sequence))
                for chunk in live
            ],
        )

    def _isolation_key(self, request: EngineRequest) -> str:
        """Where prefixes are not shared, only sequences of the same request share blocks."""
        if self._shares_prefixes:
            return request.isolation_key
        return f"{request.isolation_key}/{request.request_id}"

    def _require(self) -> _Loaded[StateT]:
        if self._loaded is None:
            raise CoreStateError("the engine is not loaded; call load() first")
        return self._loaded
