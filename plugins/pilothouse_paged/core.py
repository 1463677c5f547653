"""The engine core: a scheduler that decides, a runner that computes, and what they tell.

A step is `schedule` (retire, choose, reserve) and `run` (compute, select, commit). Tokens
are text nowhere here: stop strings are the host's business, end tokens are this module's.
"""

import itertools
import secrets
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dataplane.clock import MonotonicClock, monotonic_clock
from dataplane.engine import EngineCapabilities, EngineRequest, EngineStats
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.scheduling.scheduler import (
    ScheduledChunk,
    Scheduler,
    SchedulerConfig,
    StepPlan,
)
from dataplane.scheduling.sequence import Sequence
from pilothouse_paged.active import ActiveRequest
from pilothouse_paged.batch import Chunk
from pilothouse_paged.runner import Runner, load_runner
from pilothouse_paged.selection import Selected, select_tokens
from pilothouse_paged.settings import ENGINE, PagedSettings

_PARAMETERS = frozenset(
    {
        "frequency_penalty",
        "ignore_eos",
        "logit_bias",
        "logprobs",
        "min_tokens",
        "n",
        "presence_penalty",
        "repetition_penalty",
        "top_k",
        "top_logprobs",
    }
)


class CoreStateError(Exception):
    """A call that cannot come now: a bug in the caller."""


class PagedEngineCore:
    """EngineCore over paged attention (see dataplane.host.core)."""

    def __init__(
        self, artifact: str, settings: PagedSettings, clock: MonotonicClock = monotonic_clock
    ) -> None:
        """`artifact` is a GGUF file or a folder of safetensors. Nothing is read before `load`."""
        self._artifact = Path(artifact)
        self._settings = settings
        self._clock = clock
        self._loaded: tuple[Runner, Scheduler] | None = None
        self._active_by_request: dict[str, ActiveRequest] = {}
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
            parameters=_PARAMETERS,
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
                # Always: the sequences of one request share its prompt. See `_isolation_key`.
                is_prefix_caching=True,
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
        runner, scheduler = self._require()
        if request.request_id in self._active_by_request:
            raise CoreStateError(f"request {request.request_id} is still here; use a new id")
        problem = self._find_problem(request)
        if problem is not None:
            return [self._finished(request.request_id, Disposition.INVALID, problem)]
        seed = request.sampling.seed
        active = ActiveRequest(
            request=request,
            seed=secrets.randbits(64) if seed is None else seed,
            isolation_key=self._isolation_key(request),
            end_token_ids=runner.shape.end_token_ids,
            sequence_ids=self._sequence_ids,
        )
        refusal = scheduler.add(active.first())
        if refusal is not None:
            return [self._finished(request.request_id, Disposition.ERROR, refusal.reason)]
        self._active_by_request[request.request_id] = active
        return []

    def finish(
        self, request_id: str, disposition: Disposition, sequence: int | None = None
    ) -> list[CoreEvent]:
        """End a request, or one sequence of it, between two steps; [] when nothing is left to end.

        A first sequence that ends before its prompt is computed takes its followers along. The
        next step releases them.
        """
        active = self._active_by_request.get(request_id)
        if active is None or not self._end(active, None if active.has_followers else sequence):
            return []
        return [self._finished(request_id, disposition, sequence=sequence or 0)]

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
        token_ids = {sequence_id: s.token_id for sequence_id, s in selected.items()}
        at_limit = {s.sequence_id for s in scheduler.commit(plan, token_ids)}
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
        held = sum(active.num_held for active in self._active_by_request.values())
        if known != held:
            raise AssertionError(
                f"the scheduler knows {known} sequences, the core {held} of "
                f"{len(self._active_by_request)} requests"
            )

    def _compute(self, runner: Runner, live: list[ScheduledChunk]) -> dict[int, Selected]:
        """Token by sequence id, for each live chunk that selects one."""
        if not live:
            return {}
        sequence_ids, logits = runner.run([_to_chunk(chunk) for chunk in live])
        by_id = {chunk.sequence.sequence_id: chunk.sequence for chunk in live}
        selectors = [
            self._active_of(by_id[sequence_id]).selector_of(by_id[sequence_id])
            for sequence_id in sequence_ids
        ]
        return dict(zip(sequence_ids, select_tokens(logits, selectors), strict=True))

    def _active_of(self, sequence: Sequence) -> ActiveRequest:
        return self._active_by_request[sequence.request_id]

    def _isolation_key(self, request: EngineRequest) -> str:
        """Without prefix caching, only sequences of the same request share blocks."""
        if self._settings.prefix_caching:
            return request.isolation_key
        return f"{request.isolation_key}/{request.request_id}"

    def _end(self, active: ActiveRequest, index: int | None = None) -> bool:
        """End what has not ended of a request, or of one sequence; False when nothing was left."""
        _, scheduler = self._require()
        num_ended = 0 if index is not None else active.drop_followers()
        for sequence in active.sequences():
            if index in (None, sequence.index):
                num_ended += scheduler.finish_sequence(sequence.sequence_id) is not None
        return num_ended > 0

    def _tell_plan(self, plan: StepPlan) -> Iterator[CoreEvent]:
        for refusal in plan.refused:
            # An answer that cannot be completed is no answer: the whole request fails.
            self._end(self._active_of(refusal.sequence))
            yield self._finished(refusal.sequence.request_id, Disposition.ERROR, refusal.reason)
        for sequence in plan.released:
            if self._active_of(sequence).release_one():
                del self._active_by_request[sequence.request_id]
                yield self._event(sequence, EventKind.RELEASED)
        for sequence in plan.preempted:
            yield self._event(sequence, EventKind.PREEMPTED, reason="kv blocks")
        for sequence in plan.resumed:
            yield self._event(sequence, EventKind.RESUMED)
        for sequence in plan.admitted:
            if sequence.index == 0:  # work on the request begins once
                yield self._event(sequence, EventKind.SCHEDULED)

    def _tell_chunk(
        self, chunk: ScheduledChunk, selected: Mapping[int, Selected], at_limit: set[int]
    ) -> Iterator[CoreEvent]:
        sequence = chunk.sequence
        if chunk.is_prefill:
            is_first = chunk.start == sequence.num_cached_tokens and not sequence.num_preemptions
            yield self._event(
                sequence,
                EventKind.PREFILL_CHUNK,
                num_tokens=chunk.num_tokens,
                num_cached_tokens=sequence.num_cached_tokens if is_first else None,
            )
        if chunk.selects_token:
            yield self._tell_token(sequence, selected[sequence.sequence_id])
            yield from self._tell_end(sequence, sequence.sequence_id in at_limit)

    def _tell_token(self, sequence: Sequence, selected: Selected) -> CoreEvent:
        is_first = sequence.num_output_tokens == 1
        if is_first:
            self._add_followers(self._active_of(sequence))
        return self._event(
            sequence,
            EventKind.FIRST_TOKEN if is_first else EventKind.TOKENS,
            num_tokens=None if is_first else 1,
            token_ids=(selected.token_id,),
            scores=() if selected.score is None else (selected.score,),
        )

    def _add_followers(self, active: ActiveRequest) -> None:
        _, scheduler = self._require()
        for follower in active.followers():
            if (refusal := scheduler.add(follower)) is not None:
                raise CoreStateError(f"what the first sequence may, a follower may: {refusal}")

    def _tell_end(self, sequence: Sequence, is_at_limit: bool) -> Iterator[CoreEvent]:
        if self._active_of(sequence).is_end(sequence.output_token_ids[-1]):
            self._require()[1].finish_sequence(sequence.sequence_id)
            yield self._finished(sequence.request_id, Disposition.STOP, sequence=sequence.index)
        elif is_at_limit:
            yield self._finished(sequence.request_id, Disposition.LENGTH, sequence=sequence.index)

    def _find_problem(self, request: EngineRequest) -> str | None:
        vocab_size = self._require()[0].shape.vocab_size
        sampling = request.sampling
        if not request.prompt_token_ids:
            return "the prompt is empty; at least one token is needed"
        for name in ("max_output_tokens", "num_sequences"):
            if getattr(sampling, name) < 1:
                return f"{name} is {getattr(sampling, name)}; ask for at least 1"
        named = (*request.prompt_token_ids, *(token_id for token_id, _ in sampling.logit_bias))
        unknown = [token_id for token_id in named if not 0 <= token_id < vocab_size]
        if unknown:
            return (
                f"token id {unknown[0]} is outside the model's vocabulary of {vocab_size}; "
                f"take ids from this model's own tokenizer"
            )
        return None

    def _require(self) -> tuple[Runner, Scheduler]:
        if self._loaded is None:
            raise CoreStateError("the engine is not loaded; call load() first")
        return self._loaded

    def _finished(
        self,
        request_id: str,
        disposition: Disposition,
        reason: str | None = None,
        sequence: int = 0,
    ) -> CoreEvent:
        return CoreEvent(
            request_id=request_id,
            sequence=sequence,
            kind=EventKind.FINISHED,
            at=self._clock(),
            disposition=disposition,
            reason=reason,
        )

    def _event(self, sequence: Sequence, kind: EventKind, **fields: Any) -> CoreEvent:
        return CoreEvent(
            request_id=sequence.request_id,
            sequence=sequence.index,
            kind=kind,
            at=self._clock(),
            **fields,
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
