"""What an engine counts while it runs, kept in virtual time from the steps alone.

The cost of a step is of what changed in it, not of how many decode in it: all that decode
without a pause waited equally long for their tokens, so one gap is counted as often as they
are. Those that were preempted or stalled are looked at one by one until they catch up.
"""

from collections.abc import Iterable, Mapping

from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.observer.ended_work import EndedWork
from dataplane.simulation.observer.histogram import Histogram
from dataplane.simulation.observer.measure import Measure
from dataplane.simulation.timeline import Timeline

_AT_END = (
    Measure.E2E,
    Measure.QUEUE,
    Measure.PREFILL,
    Measure.DECODE,
    Measure.INFERENCE,
    Measure.PROMPT_TOKENS,
    Measure.COMPUTED_TOKENS,
    Measure.OUTPUT_TOKENS,
    Measure.MAX_OUTPUT_TOKENS,
    Measure.NUM_PREEMPTIONS,
)
"""Kept when a sequence finishes, in the order of `_observe_whole`."""


class _Life:
    """What is remembered of a sequence that has not ended."""

    __slots__ = ("arrived_at", "cancelled_at", "first_at", "last_at", "scheduled_at", "sequence")

    def __init__(self, sequence: Sequence, arrived_at: float) -> None:
        self.sequence = sequence
        self.arrived_at = arrived_at
        self.scheduled_at = arrived_at
        self.first_at: float | None = None
        """Its first token was selected here, or its work handed over and begun."""
        self.last_at: float | None = None
        """Of its last token; None while that is the end of the last step, as of most."""
        self.cancelled_at: float | None = None


class EngineTally:
    """A StepObserver that is also told of submissions and cancels. Counters never fall.

    Only those measures are kept that `bounds` names. All times are the timeline's.
    """

    def __init__(self, timeline: Timeline, bounds: Mapping[Measure, tuple[float, ...]]) -> None:
        self._timeline = timeline
        self.histograms = {measure: Histogram(limits) for measure, limits in bounds.items()}
        # Bound once: looking up by an enum is a call.
        kept = self.histograms.get
        self._itl = kept(Measure.ITL)
        self._ttft = kept(Measure.TTFT)
        self._step = kept(Measure.STEP)
        self._step_tokens = kept(Measure.STEP_TOKENS)
        self._tpot = kept(Measure.TPOT)
        self._cancel_to_release = kept(Measure.CANCEL_TO_RELEASE)
        self._at_end = [
            (position, histogram)
            for position, measure in enumerate(_AT_END)
            if (histogram := kept(measure)) is not None
        ]
        self.num_requests = 0
        self.num_input_tokens = 0
        """Prompt tokens of sequences whose work began."""
        self.num_cached_tokens = 0
        self.num_prefilled_tokens = 0
        """Prompt tokens of sequences that selected their first token."""
        self._num_computed_tokens = 0
        """Of them, those that the prefix cache did not spare."""
        self.num_output_tokens = 0
        self.num_stopped = 0
        self.num_at_limit = 0
        self.num_cancelled = 0
        self.num_refused = 0
        self.num_finished_input_tokens = 0
        self.num_finished_output_tokens = 0
        self.num_finished_cached_tokens = 0
        self.num_steps = 0
        self.num_preemptions = 0
        self.num_preempted_input_tokens = 0
        self.num_preempted_output_tokens = 0
        self.num_scheduled_prompt_tokens = 0
        self.num_scheduled_decode_steps = 0
        self.prefill_seconds = 0.0
        """Of steps with prompt tokens."""
        self.decode_seconds = 0.0
        """Of steps without."""
        self.ended = EndedWork()
        self._longest = 0
        """Of the sequences that ended, paused, or were there when somebody asked."""
        self.last_prompt_tokens = 0
        """Of the last step that ended, as the next."""
        self.last_decode_steps = 0
        self.step_began_at: float | None = None
        """While a step runs."""
        self.num_unseen = 0
        """Submitted since the engine last looked: in its mailbox, in no gauge."""
        self.last_preempted: tuple[Sequence, ...] = ()
        self._lives: dict[int, _Life] = {}
        self._prefilling: dict[int, Sequence] = {}
        self._apart: dict[int, Sequence] = {}
        """They did not get a token in the last step, or hold no blocks."""
        self._dropped: set[int] = set()
        """Ended since the step that runs was chosen."""
        self._ended_at = 0.0

    def submitted(self, sequence: Sequence) -> None:
        """It arrived at the engine."""
        self.num_requests += 1
        self.num_unseen += 1
        self._lives[sequence.sequence_id] = _Life(sequence, self._timeline.now)

    def longest_context(self) -> int:
        """Tokens with KV of the longest sequence that there ever was. Never falls, also where one
        lost its blocks half way through its prompt."""
        for life in self._lives.values():
            self._longest = max(self._longest, life.sequence.num_computed_tokens)
        return self._longest

    def refused(self, sequence: Sequence) -> None:
        """It can never run, and is not queued."""
        self.num_unseen -= 1
        self.num_refused += 1
        del self._lives[sequence.sequence_id]

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """It was ended early, between two steps; its blocks are free when a plan has it among
        the released."""
        self.num_cancelled += 1
        life = self._lives[sequence.sequence_id]
        life.cancelled_at = asked_at
        self._note_answer(sequence, life, self._timeline.now)
        self._prefilling.pop(sequence.sequence_id, None)
        self._apart.pop(sequence.sequence_id, None)

    def dropped(self, sequence: Sequence) -> None:
        """It ended with another one of its request, which was refused by the step that began just
        now: the step computes it, and it selects nothing."""
        self.num_refused += 1
        self._dropped.add(sequence.sequence_id)
        self._forget(sequence)

    def leaked(self, sequence: Sequence) -> None:
        """It was cancelled, and nobody ever sees its release."""
        self._forget(sequence)

    def step_began(self, plan: StepPlan) -> None:
        """Take over whose work began, paused or went on."""
        now = self._timeline.now
        self.num_unseen = 0
        if plan.released:
            self._note_released(plan.released, now)
        for sequence in plan.admitted:
            self._lives[sequence.sequence_id].scheduled_at = now
            if sequence.num_handed_over_tokens:
                self._take_over(sequence, now)
            else:
                self._prefilling[sequence.sequence_id] = sequence
            self.num_input_tokens += sequence.num_prompt_tokens
            self.num_cached_tokens += sequence.num_cached_tokens
        self.last_preempted = plan.preempted
        if plan.preempted or plan.stalled or plan.resumed or plan.refused:
            self._note_pauses(plan, now)
        self._dropped.clear()
        self.step_began_at = None if plan.is_empty else now

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Take over the tokens that were selected, and who has all of them."""
        now = self._timeline.now
        num_before, num_computed_before = self.num_output_tokens, self._num_computed_tokens
        began_at = self._ended_at if self.step_began_at is None else self.step_began_at
        self._count_step(plan, now - began_at)
        num_decodes = plan.num_decode_steps
        if self._dropped:
            num_decodes -= self._num_decodes_dropped(plan)
        if self._apart:
            num_decodes -= self._note_caught_up(plan, now)
        if num_decodes > 0:
            self.num_output_tokens += num_decodes
            if self._itl is not None:
                self._itl.observe(now - self._ended_at, num_decodes)
        if self._prefilling:
            self._note_first_tokens(now)
        num_selected = self.num_output_tokens - num_before
        if self._step_tokens is not None and num_selected:
            num_computed = self._num_computed_tokens - num_computed_before
            self._step_tokens.observe(num_selected + num_computed)
        for sequence in complete:
            self._note_complete(sequence, now)
        self._ended_at = now
        self.step_began_at = None

    def _count_step(self, plan: StepPlan, seconds: float) -> None:
        num_prompt, num_decodes = plan.num_prompt_tokens, plan.num_decode_steps
        self.num_steps += 1
        self.num_scheduled_prompt_tokens += num_prompt
        self.num_scheduled_decode_steps += num_decodes
        self.last_prompt_tokens = num_prompt
        self.last_decode_steps = num_decodes
        if num_prompt:
            self.prefill_seconds += seconds
        else:
            self.decode_seconds += seconds
        if self._step is not None:
            self._step.observe(seconds)

    def _note_released(self, released: Iterable[Sequence], now: float) -> None:
        """Complete ones are forgotten already."""
        for sequence in released:
            life = self._lives.pop(sequence.sequence_id, None)
            if life is None or life.cancelled_at is None or self._cancel_to_release is None:
                continue
            self._cancel_to_release.observe(now - life.cancelled_at)

    def _note_pauses(self, plan: StepPlan, now: float) -> None:
        for sequence in plan.preempted:
            self.num_preemptions += 1
            self.num_preempted_input_tokens += sequence.num_prompt_tokens
            self.num_preempted_output_tokens += sequence.num_output_tokens
        for sequence in (*plan.preempted, *plan.stalled):
            if sequence.num_output_tokens:
                self._note_context(sequence)
                self._set_apart(sequence)
        for sequence in plan.resumed:
            if not sequence.num_output_tokens:
                self._lives[sequence.sequence_id].scheduled_at = now
        for refusal in plan.refused:
            self.num_refused += 1
            self._forget(refusal.sequence)

    def _take_over(self, sequence: Sequence, now: float) -> None:
        """Its prompt was computed elsewhere; it decodes from now on."""
        life = self._lives[sequence.sequence_id]
        life.first_at = life.last_at = now
        self._apart[sequence.sequence_id] = sequence

    def _set_apart(self, sequence: Sequence) -> None:
        life = self._lives[sequence.sequence_id]
        if life.last_at is None:
            life.last_at = self._ended_at
        self._apart[sequence.sequence_id] = sequence

    def _note_caught_up(self, plan: StepPlan, now: float) -> int:
        """Count the gaps of those that select again; how many decode steps they were."""
        num_decodes = 0
        for chunk in plan.chunks_apart:
            sequence = chunk.sequence
            if not chunk.selects_token or sequence.sequence_id not in self._apart:
                continue
            del self._apart[sequence.sequence_id]
            life = self._lives[sequence.sequence_id]
            if self._itl is not None and life.last_at is not None:
                self._itl.observe(now - life.last_at)
            life.last_at = None
            self.num_output_tokens += 1
            num_decodes += not chunk.is_prefill
        return num_decodes

    def _num_decodes_dropped(self, plan: StepPlan) -> int:
        decoded = [each.sequence.sequence_id for each in plan.chunks if not each.is_prefill]
        return sum(sequence_id in self._dropped for sequence_id in decoded)

    def _note_first_tokens(self, now: float) -> None:
        for sequence in [s for s in self._prefilling.values() if s.num_output_tokens]:
            del self._prefilling[sequence.sequence_id]
            life = self._lives[sequence.sequence_id]
            life.first_at = now
            self.num_output_tokens += 1
            self.num_prefilled_tokens += sequence.num_prompt_tokens
            num_computed = sequence.num_prompt_tokens - sequence.num_cached_tokens
            self._num_computed_tokens += num_computed
            self.ended.read(num_computed, now - life.scheduled_at)
            if self._ttft is not None:
                self._ttft.observe(now - life.arrived_at)

    def _note_complete(self, sequence: Sequence, now: float) -> None:
        life = self._lives.pop(sequence.sequence_id)
        num_prompt, num_output = sequence.num_prompt_tokens, sequence.num_output_tokens
        num_selected = num_output - sequence.num_handed_over_tokens
        if num_output >= sequence.max_output_tokens:
            self.num_at_limit += 1
        else:
            self.num_stopped += 1
        self.num_finished_input_tokens += num_prompt
        self.num_finished_output_tokens += num_selected
        self.num_finished_cached_tokens += sequence.num_cached_tokens
        self._note_answer(sequence, life, now)
        if self._at_end and life.first_at is not None:
            self._observe_whole(sequence, life, life.first_at, now)

    def _observe_whole(self, sequence: Sequence, life: _Life, first_at: float, now: float) -> None:
        """What is measured of complete ones alone, in the order of `_AT_END`."""
        num_prompt, num_output = sequence.num_prompt_tokens, sequence.num_output_tokens
        decode = now - first_at
        values = (
            now - life.arrived_at,
            life.scheduled_at - life.arrived_at,
            first_at - life.scheduled_at,
            decode,
            now - life.scheduled_at,
            num_prompt,
            num_prompt - sequence.num_cached_tokens,
            num_output - sequence.num_handed_over_tokens,
            sequence.max_output_tokens,
            sequence.num_preemptions,
        )
        for position, histogram in self._at_end:
            histogram.observe(values[position])
        if self._tpot is not None and num_output > 1:
            self._tpot.observe(decode / (num_output - 1))

    def _note_answer(self, sequence: Sequence, life: _Life, now: float) -> None:
        """It ended, by itself or not. Of one without a token there is nothing to count, nor of one
        with those alone that were handed over: its output took no time here."""
        if life.first_at is None:
            return
        self._note_context(sequence)
        num_output, num_before = sequence.num_output_tokens, sequence.num_handed_over_tokens
        if num_output > num_before:
            num_steps = num_output - max(1, num_before)
            self.ended.answered(num_output - num_before, num_steps, now - life.first_at)

    def _note_context(self, sequence: Sequence) -> None:
        """Its last token has no KV."""
        num_tokens = sequence.num_prompt_tokens + sequence.num_output_tokens - 1
        self._longest = max(self._longest, num_tokens)

    def _forget(self, sequence: Sequence) -> None:
        self._lives.pop(sequence.sequence_id, None)
        self._prefilling.pop(sequence.sequence_id, None)
        self._apart.pop(sequence.sequence_id, None)
