"""Whatever comes: the incremental scheduler decides as the plain one does, at every step.

Both are told the same. After each call their sequences, block tables and counts are equal; of
each step the whole plan is, and it stays so when it is read late.
"""

from dataclasses import asdict
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig, StepPlan
from dataplane.scheduling.sequence import Sequence
from tests.dataplane.scheduling.any_scheduler import MAX_STEPS_TO_DRAIN, any_config
from tests.dataplane.scheduling.reference_scheduler import Plan, ReferenceScheduler, Stream

VOCABULARY = 2  # small, so that prefixes coincide often

configs = any_config(
    max_model_len=60,
    slots=8,
    extra=20,
    prefill=8,
    blocks=30,
    block_size=5,
    caching=st.booleans(),
)
prompts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12).map(tuple)


def described(plan: StepPlan) -> dict[str, Any]:
    return {
        "chunks": [
            (
                c.sequence.sequence_id,
                c.start,
                c.num_tokens,
                c.is_prefill,
                c.selects_token,
                c.num_cached_tokens,
            )
            for c in plan.chunks
        ],
        "released": [s.sequence_id for s in plan.released],
        "admitted": [s.sequence_id for s in plan.admitted],
        "resumed": [s.sequence_id for s in plan.resumed],
        "preempted": [s.sequence_id for s in plan.preempted],
        "refused": [r.sequence.sequence_id for r in plan.refused],
        "stalled": [s.sequence_id for s in plan.stalled],
        "deferred_on": plan.deferred_on,
        "is_blocked": plan.blocked_on is not None,
        "is_empty": plan.is_empty,
        "num_prompt_tokens": plan.num_prompt_tokens,
        "num_decode_steps": plan.num_decode_steps,
        "num_reread_tokens": plan.num_reread_tokens,
        "num_context_tokens": plan.num_context_tokens,
    }


def expected(plan: Plan) -> dict[str, Any]:
    prefills = [c for c in plan.chunks if c.is_prefill]
    decodes = [c for c in plan.chunks if not c.is_prefill]
    return {
        "chunks": [
            (c.stream.stream_id, c.start, c.num_tokens, c.is_prefill, c.selects, c.num_cached)
            for c in plan.chunks
        ],
        "released": plan.released,
        "admitted": plan.admitted,
        "resumed": plan.resumed,
        "preempted": plan.preempted,
        "refused": plan.refused,
        "stalled": plan.stalled,
        "deferred_on": plan.deferred_on,
        "is_blocked": plan.is_blocked,
        "is_empty": not plan.chunks,
        "num_prompt_tokens": sum(c.num_tokens for c in prefills),
        "num_decode_steps": len(decodes),
        "num_reread_tokens": sum(c.start for c in prefills),
        "num_context_tokens": sum(c.start + 1 for c in decodes),
    }


class BothSchedulers(RuleBasedStateMachine):
    """Some plans are read at once, some after their step, some at the very end."""

    @initialize(config=configs, is_scripted=st.sampled_from(["all", "all", "some", "none"]))
    def build(self, config: SchedulerConfig, is_scripted: str) -> None:
        self.scheduler = Scheduler(config)
        self.reference = ReferenceScheduler(config)
        self.scripted = is_scripted
        self.sequences: dict[int, Sequence] = {}
        self.streams: dict[int, Stream] = {}
        self.plan: StepPlan | None = None
        self.to_read: list[tuple[StepPlan, Plan]] = []

    @rule(
        burst=st.lists(
            st.tuples(
                prompts,
                st.integers(1, 24),
                st.integers(1, 24),
                st.sampled_from(["a", "a", "b"]),
                st.integers(0, 9),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def add(self, burst: list[tuple[tuple[int, ...], int, int, str, int]]) -> None:
        for prompt, limit, length, tenant, earlier in burst:
            self._add(prompt, limit, length, tenant, earlier)

    def _add(
        self, prompt: tuple[int, ...], limit: int, length: int, tenant: str, earlier: int
    ) -> None:
        sequence_id = len(self.sequences)
        if earlier < 4 and self.streams:  # a prompt that continues an earlier sequence
            begun = list(self.streams.values())[earlier % len(self.streams)]
            prompt = (*begun.tokens, *prompt)[:36]
        is_scripted = self.scripted == "all" or (self.scripted == "some" and sequence_id % 2 == 0)
        script = [(sequence_id + n) % VOCABULARY for n in range(length)] if is_scripted else None
        sequence = Sequence(
            request_id=f"r{sequence_id}",
            sequence_id=sequence_id,
            prompt_token_ids=prompt,
            max_output_tokens=limit,
            isolation_key=tenant,
            script=script,
        )
        stream = Stream(sequence_id, list(prompt), limit, tenant, script)
        self.sequences[sequence_id], self.streams[sequence_id] = sequence, stream
        if len(prompt) + limit <= self.scheduler.config.max_model_len:
            assert (self.scheduler.add(sequence) is None) == self.reference.add(stream)
        else:
            assert self.scheduler.add(sequence) is not None
        if sequence.is_finished:
            stream.status = "finished"

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        sequence_id = data.draw(st.sampled_from(list(self.sequences)))
        ended = self.scheduler.finish_sequence(sequence_id)
        assert (ended is not None) == self.reference.finish(sequence_id)

    @rule()
    def retire(self) -> None:
        released = [s.sequence_id for s in self.scheduler.retire()]
        assert released == self.reference.retire()

    @precondition(lambda self: self.plan is None)
    @rule(when=st.sampled_from(["at once", "late", "last"]))
    def schedule(self, when: str) -> None:
        plan, wanted = self.scheduler.schedule(), self.reference.schedule()
        if when == "at once":
            assert described(plan) == expected(wanted)
        elif when == "last":
            self.to_read.append((plan, wanted))
        self.plan = None if plan.is_empty else plan
        assert (self.plan is None) == (self.reference.plan is None)

    @precondition(lambda self: self.plan is not None)
    @rule(tells=st.booleans())
    def commit(self, tells: bool) -> None:
        assert self.plan is not None
        assert self.reference.plan is not None
        wanted = self.reference.plan
        is_told = tells or self.scripted != "all"
        selected = self._selected(wanted) if is_told else None
        complete = [s.sequence_id for s in self.scheduler.commit(self.plan, selected)]
        assert complete == self.reference.commit(selected)
        assert described(self.plan) == expected(wanted)
        self.plan = None

    def _selected(self, plan: Plan) -> dict[int, int]:
        """A script's token, or one that depends on the sequence and its length."""
        selected = {}
        for chunk in plan.chunks:
            stream = chunk.stream
            if chunk.selects and stream.status != "finished":
                token = (stream.stream_id + len(stream.tokens)) % VOCABULARY
                known = stream.script
                selected[stream.stream_id] = token if known is None else known[stream.num_output]
        return selected

    @precondition(lambda self: self.plan is not None)
    @rule()
    def abandon(self) -> None:
        assert self.plan is not None
        self.scheduler.abandon(self.plan)
        self.reference.abandon()
        self.plan = None

    @precondition(lambda self: self.plan is None)
    @rule(num_steps=st.integers(2, 12), abandoned=st.integers(0, 9))
    def run_steps(self, num_steps: int, abandoned: int) -> None:
        for n in range(num_steps):
            self.schedule("at once" if n % 2 else "late")
            if self.plan is not None and n % 4 == abandoned:
                self.abandon()
            elif self.plan is not None:
                self.commit(tells=n % 3 == 0)
            self.both_are_in_the_same_state()

    @invariant()
    def both_are_in_the_same_state(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.check_integrity()
        assert asdict(self.scheduler.stats) == self.reference.stats()
        for sequence_id, stream in self.streams.items():
            sequence = self.sequences[sequence_id]
            assert self._state_of(sequence) == (
                stream.status,
                stream.blocks,
                stream.num_computed,
                stream.tokens,
                stream.num_cached,
                stream.num_preemptions,
                stream.is_decoding,
                stream.num_behind,
                stream.num_registered,
            ), sequence_id

    @staticmethod
    def _state_of(sequence: Sequence) -> tuple[Any, ...]:
        return (
            sequence.status.value,
            sequence.block_table,
            sequence.num_computed_tokens,
            [*sequence.prompt_token_ids, *sequence.output_token_ids],
            sequence.num_cached_tokens,
            sequence.num_preemptions,
            sequence.is_decoding,
            sequence.num_tokens_behind,
            sequence.num_registered_blocks,
        )

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for _ in range(MAX_STEPS_TO_DRAIN):
            if self.plan is not None:
                self.commit(tells=False)
            if not self.scheduler.has_work:
                break
            self.schedule("late")
            self.both_are_in_the_same_state()
        assert not self.scheduler.has_work
        for plan, wanted in self.to_read:
            assert described(plan) == expected(wanted)


TestBothSchedulers = BothSchedulers.TestCase
TestBothSchedulers.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
