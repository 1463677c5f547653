"""The engine core: a scheduler that decides, a runner that computes, and what they tell.

A step is `schedule` (retire, choose, reserve) and `run` (compute, select, commit). Tokens
are text nowhere here: stop strings are the host's business, end tokens are this module's.
"""

import itertools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.engine import EngineCapabilities, EngineRequest, EngineStats, SamplingParams
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.scheduling.scheduler import ScheduledChunk, Scheduler, SchedulerConfig, StepPlan
from dataplane.scheduling.sequence import Sequence
from pilothouse_paged.batch import Chunk
from pilothouse_paged.runner import Runner, load_runner
from pilothouse_paged.sampler import SelectionParams, select
from pilothouse_paged.settings import ENGINE, PagedSettings


class CoreStateError(Exception):
    """A call that cannot come now: a bug in the caller."""


@dataclass(frozen=True, slots=True)
class _Active:
    """A request that is not released."""

    sequence: Sequence
    sampling: SamplingParams
    seed: int


class PagedEngineCore:
    """EngineCore over paged attention (see dataplane.host.core)."""

    def __init__(
        self, artifact: str, settings: PagedSettings, clock: MonotonicClock = monotonic_clock
    ) -> None:
        """`artifact` is the path of a GGUF file. Nothing is read before `load`."""
        self._artifact = Path(artifact)
        self._settings = settings
        self._clock = clock
        self._loaded: tuple[Runner, Scheduler] | None = None
        self._active_by_request: dict[str, _Active] = {}
        self._sequence_ids = itertools.count()
        self._plan = StepPlan()
        self._is_plan_pending = False

    @property
    def scheduler(self) -> Scheduler:
        """Valid after `load`; for looking, not for changing."""
        return self._require()[1]

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `load`."""
        runner, _ = self._require()
        return EngineCapabilities(
            engine=ENGINE,
            version=version("pilothouse"),
            takes_token_ids=True,
            max_model_len=runner.max_model_len,
            max_num_seqs=self._settings.max_num_seqs,
            prefill=Observability.OBSERVED,
            decode=Observability.OBSERVED,
            cleanup=Observability.OBSERVED,
            token_counts=Observability.OBSERVED,
            cached_tokens=Observability.OBSERVED,
            parameters=frozenset({"ignore_eos", "top_k"}),
        )

    @property
    def has_work(self) -> bool:
        """Something runs, waits, or is to be released."""
        return self._is_plan_pending or self._require()[1].has_work

    def load(self) -> None:
        """Read the weights, measure, and allocate the KV pool.

        Raises OSError and ValueError, with the remedy, for what cannot work.
        """
        self.start(load_runner(self._artifact, self._settings))

    def start(self, runner: Runner) -> None:
        """Serve with a runner that is loaded already: the second half of `load`."""
        device = runner.device_kind
        scheduler = Scheduler(
            SchedulerConfig(
                max_num_seqs=self._settings.max_num_seqs,
                max_num_batched_tokens=self._settings.batched_tokens(device),
                max_model_len=runner.max_model_len,
                num_blocks=runner.num_blocks,
                block_size=self._settings.block_size,
                max_prefill_tokens_per_step=self._settings.prefill_tokens_per_step(device),
                is_prefix_caching=self._settings.prefix_caching,
            )
        )
        self._loaded = (runner, scheduler)

    def warm_up(self) -> None:
        """Run a prefill and a decode outside the scheduler. Only before the first request."""
        runner, scheduler = self._require()
        if scheduler.has_work or scheduler.stats.num_steps:
            raise CoreStateError("warm_up writes into blocks that requests may own by now")
        runner.warm_up()

    def add(self, request: EngineRequest) -> list[CoreEvent]:
        """Queue a request, or end it at once with the reason why it can never run.

        Raises CoreStateError for an id that is not released yet.
        """
        _, scheduler = self._require()
        if request.request_id in self._active_by_request:
            raise CoreStateError(f"request {request.request_id} is still here; use a new id")
        problem = self._find_problem(request)
        if problem is not None:
            return [self._finished(request.request_id, Disposition.INVALID, problem)]
        sequence = Sequence(
            request_id=request.request_id,
            sequence_id=next(self._sequence_ids),
            prompt_token_ids=request.prompt_token_ids,
            max_output_tokens=request.sampling.max_output_tokens,
            isolation_key=request.isolation_key,
        )
        refusal = scheduler.add(sequence)
        if refusal is not None:
            return [self._finished(request.request_id, Disposition.ERROR, refusal.reason)]
        seed = request.sampling.seed
        self._active_by_request[request.request_id] = _Active(
            sequence, request.sampling, secrets.randbits(64) if seed is None else seed
        )
        return []

    def finish(self, request_id: str, disposition: Disposition) -> list[CoreEvent]:
        """End a request between two steps; [] when it is unknown or has finished.

        The next step releases it.
        """
        _, scheduler = self._require()
        ended = scheduler.finish(request_id)
        return [self._finished(request_id, disposition)] if ended else []

    def schedule(self) -> list[CoreEvent]:
        """Retire, choose and reserve.

        After a `run` that raised this chooses nothing: `run` is to be called again, for
        what was not finished meanwhile.
        """
        _, scheduler = self._require()
        if self._is_plan_pending:
            return []
        self._plan = plan = scheduler.schedule()
        self._is_plan_pending = bool(plan.chunks)
        return list(self._tell_plan(plan))

    def run(self) -> list[CoreEvent]:
        """Compute what was scheduled, select tokens and commit.

        When this raises, nothing was committed and the plan stands: what was selected is
        forgotten, blocks stay reserved, and calling again repeats the step.
        """
        if not self._is_plan_pending:
            return []
        runner, scheduler = self._require()
        plan = self._plan
        live = [chunk for chunk in plan.chunks if not chunk.sequence.is_finished]
        selected = self._compute(runner, live)
        at_limit = {s.sequence_id for s in scheduler.commit(plan, selected)}
        self._is_plan_pending = False
        return [event for chunk in live for event in self._tell_chunk(chunk, selected, at_limit)]

    def stats(self) -> EngineStats:
        """A snapshot between two steps."""
        runner, scheduler = self._require()
        stats = scheduler.stats
        return EngineStats(
            age_seconds=0.0,
            max_num_seqs=self._settings.max_num_seqs,
            num_running=stats.num_running,
            num_waiting=stats.num_waiting,
            num_blocks=runner.num_blocks,
            num_free_blocks=stats.num_free_blocks,
            num_referenced_blocks=stats.num_referenced_blocks,
            num_cached_blocks=stats.num_cached_blocks,
            num_evictable_blocks=stats.num_evictable_blocks,
            num_unreleased=stats.num_unreleased,
            num_steps=stats.num_steps,
            prompt_tokens_scheduled=self._plan.num_prompt_tokens,
            decode_steps_scheduled=self._plan.num_decode_steps,
            num_preemptions=stats.num_preemptions,
            blocked_on=self._plan.blocked_on if scheduler.has_work else None,
            ledger=runner.ledger_lines,
        )

    def check_integrity(self) -> None:
        """Raises AssertionError when requests, sequences, blocks and prefix cache disagree."""
        _, scheduler = self._require()
        scheduler.check_integrity()
        stats = scheduler.stats
        known = stats.num_running + stats.num_waiting + stats.num_unreleased
        if known != len(self._active_by_request):
            raise AssertionError(
                f"the scheduler knows {known} sequences, the core "
                f"{len(self._active_by_request)} requests"
            )

    def _compute(self, runner: Runner, live: list[ScheduledChunk]) -> dict[int, int]:
        """Token by sequence id, for each live chunk that selects one."""
        if not live:
            return {}
        sequence_ids, logits = runner.run([_to_chunk(chunk) for chunk in live])
        by_id = {chunk.sequence.sequence_id: chunk.sequence for chunk in live}
        params = [self._selection_params(by_id[sequence_id]) for sequence_id in sequence_ids]
        return dict(zip(sequence_ids, select(logits, params), strict=True))

    def _selection_params(self, sequence: Sequence) -> SelectionParams:
        active = self._active_by_request[sequence.request_id]
        return SelectionParams(
            temperature=active.sampling.temperature,
            top_p=active.sampling.top_p,
            top_k=active.sampling.top_k,
            seed=active.seed,
            index=sequence.num_output_tokens,
        )

    def _tell_plan(self, plan: StepPlan) -> Iterator[CoreEvent]:
        for refusal in plan.refused:
            request_id = refusal.sequence.request_id
            yield self._finished(request_id, Disposition.ERROR, refusal.reason)
        for sequence in plan.released:
            del self._active_by_request[sequence.request_id]
            yield self._event(sequence.request_id, EventKind.RELEASED)
        for sequence in plan.preempted:
            yield self._event(sequence.request_id, EventKind.PREEMPTED, reason="kv blocks")
        for sequence in plan.resumed:
            yield self._event(sequence.request_id, EventKind.RESUMED)
        for sequence in plan.admitted:
            yield self._event(sequence.request_id, EventKind.SCHEDULED)

    def _tell_chunk(
        self, chunk: ScheduledChunk, selected: dict[int, int], at_limit: set[int]
    ) -> Iterator[CoreEvent]:
        sequence = chunk.sequence
        request_id = sequence.request_id
        if chunk.is_prefill:
            is_first = chunk.start == sequence.num_cached_tokens and not sequence.num_preemptions
            yield self._event(
                request_id,
                EventKind.PREFILL_CHUNK,
                num_tokens=chunk.num_tokens,
                num_cached_tokens=sequence.num_cached_tokens if is_first else None,
            )
        if not chunk.selects_token:
            return
        token_id = selected[sequence.sequence_id]
        if sequence.num_output_tokens == 1:
            yield self._event(request_id, EventKind.FIRST_TOKEN, token_ids=(token_id,))
        else:
            yield self._event(request_id, EventKind.TOKENS, num_tokens=1, token_ids=(token_id,))
        if self._is_end(request_id, token_id):
            self._require()[1].finish_sequence(sequence.sequence_id)
            yield self._finished(request_id, Disposition.STOP)
        elif sequence.sequence_id in at_limit:
            yield self._finished(request_id, Disposition.LENGTH)

    def _is_end(self, request_id: str, token_id: int) -> bool:
        runner, _ = self._require()
        ignores_end = self._active_by_request[request_id].sampling.ignore_eos
        return token_id in runner.shape.end_token_ids and not ignores_end

    def _find_problem(self, request: EngineRequest) -> str | None:
        vocab_size = self._require()[0].shape.vocab_size
        if not request.prompt_token_ids:
            return "the prompt is empty; at least one token is needed"
        if request.sampling.max_output_tokens < 1:
            return f"max_output_tokens is {request.sampling.max_output_tokens}; ask for at least 1"
        unknown = [t for t in request.prompt_token_ids if not 0 <= t < vocab_size]
        if unknown:
            return (
                f"token id {unknown[0]} is outside the model's vocabulary of {vocab_size}; "
                f"tokenize the prompt with this model's own tokenizer"
            )
        return None

    def _require(self) -> tuple[Runner, Scheduler]:
        if self._loaded is None:
            raise CoreStateError("the engine is not loaded; call load() first")
        return self._loaded

    def _finished(
        self, request_id: str, disposition: Disposition, reason: str | None = None
    ) -> CoreEvent:
        return CoreEvent(
            request_id=request_id,
            kind=EventKind.FINISHED,
            at=self._clock(),
            disposition=disposition,
            reason=reason,
        )

    def _event(
        self,
        request_id: str,
        kind: EventKind,
        *,
        num_tokens: int | None = None,
        num_cached_tokens: int | None = None,
        token_ids: tuple[int, ...] = (),
        reason: str | None = None,
    ) -> CoreEvent:
        return CoreEvent(
            request_id=request_id,
            kind=kind,
            at=self._clock(),
            num_tokens=num_tokens,
            num_cached_tokens=num_cached_tokens,
            token_ids=token_ids,
            reason=reason,
        )


def _to_chunk(chunk: ScheduledChunk) -> Chunk:
    sequence = chunk.sequence
    return Chunk(
        sequence_id=sequence.sequence_id,
        token_ids=sequence.tokens(chunk.start, chunk.start + chunk.num_tokens),
        start=chunk.start,
        block_table=sequence.block_table,
        selects_token=chunk.selects_token,
        is_decode=not chunk.is_prefill,
    )
