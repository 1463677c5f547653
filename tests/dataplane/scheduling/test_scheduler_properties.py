"""Whatever is added, finished and preempted: every read finds the right KV, nothing leaks.

The device is simulated by content. Each slot remembers which token was written there,
after which tokens, and for which tenant; a step that would read anything else fails.
The model is a hash of all tokens before, so one wrongly reused block also shows in the
output.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from zlib import crc32

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dataplane.scheduling.scheduler import (
    RefusalKind,
    ScheduledChunk,
    Scheduler,
    SchedulerConfig,
    StepPlan,
)
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from tests.dataplane.scheduling.any_scheduler import MAX_STEPS_TO_DRAIN, any_config

VOCABULARY = 2  # small, so that prefixes and outputs coincide often

configs = any_config(
    max_model_len=40,
    slots=4,
    extra=10,
    prefill=6,
    blocks=20,
    block_size=4,
    caching=st.sampled_from([True, True, True, False]),
)


def digest(token_ids: tuple[int, ...]) -> int:
    return crc32(bytes(token_ids))


def next_token(token_ids: tuple[int, ...]) -> int:
    return digest(token_ids) % VOCABULARY


def generate(prompt: tuple[int, ...], num_tokens: int) -> list[int]:
    token_ids = prompt
    for _ in range(num_tokens):
        token_ids += (next_token(token_ids),)
    return list(token_ids[len(prompt) :])


@dataclass
class SimulatedKV:
    """What each slot holds: (digest of the tokens up to there, tenant)."""

    block_size: int
    content: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)

    def slot(self, sequence: Sequence, position: int) -> tuple[int, int]:
        return sequence.block_table[position // self.block_size], position % self.block_size

    def receive(self, sequence: Sequence) -> None:
        """KV that came with a sequence is put into its blocks when it is admitted."""
        for position in range(sequence.num_tokens - 1):
            self.content[self.slot(sequence, position)] = self._expected(sequence, position)

    def check(self, sequence: Sequence) -> None:
        """Everything that it computed is there."""
        for position in range(sequence.num_computed_tokens):
            found = self.content.get(self.slot(sequence, position))
            assert found == self._expected(sequence, position), (sequence, position)

    def run(self, plan: StepPlan) -> dict[int, int]:
        written: set[tuple[int, int]] = set()
        for chunk in plan.chunks:
            for position in range(chunk.start, chunk.start + chunk.num_tokens):
                slot = self.slot(chunk.sequence, position)
                assert slot not in written, "two sequences write one slot in one step"
                written.add(slot)
                self.content[slot] = self._expected(chunk.sequence, position)
        for chunk in plan.chunks:
            self._check_reads(chunk)
        return {c.sequence.sequence_id: self._select(c) for c in plan.chunks if c.selects_token}

    def _expected(self, sequence: Sequence, position: int) -> tuple[int, str]:
        return digest(sequence.tokens(0, position + 1)), sequence.isolation_key

    def _check_reads(self, chunk: ScheduledChunk) -> None:
        for position in range(chunk.start + chunk.num_tokens):
            found = self.content.get(self.slot(chunk.sequence, position))
            assert found == self._expected(chunk.sequence, position), (chunk, position)

    def _select(self, chunk: ScheduledChunk) -> int:
        return next_token(chunk.sequence.tokens(0, chunk.start + chunk.num_tokens))


class AnyTraffic(RuleBasedStateMachine):
    """Adds, cancels and steps in any order, also sequences that come with their KV, and some whose
    KV somebody reads after their end; at the end everything is drained."""

    @initialize(config=configs)
    def build(self, config: SchedulerConfig) -> None:
        self.scheduler = Scheduler(config)
        self.kv = SimulatedKV(config.block_size)
        self.sequences: dict[int, Sequence] = {}
        self.ended: dict[int, str] = {}
        self.num_released: dict[int, int] = {}
        self.plan: StepPlan | None = None
        self.held: dict[int, Sequence] = {}
        self.paused: set[int] = set()

    @rule(
        prompt=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8).map(tuple),
        num_selected=st.integers(1, 3),
        num_left=st.integers(1, 12),
        tenant=st.sampled_from(["a", "b"]),
    )
    def add_handed_over(
        self, prompt: tuple[int, ...], num_selected: int, num_left: int, tenant: str
    ) -> None:
        self._add(
            f"r{len(self.sequences)}",
            prompt,
            num_selected + num_left,
            tenant,
            num_handed_over=num_selected,
        )

    @rule(
        prompt=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8).map(tuple),
        num_output=st.integers(1, 16),
        tenant=st.sampled_from(["a", "a", "b"]),
        repeat=st.integers(0, 9),
    )
    def add(self, prompt: tuple[int, ...], num_output: int, tenant: str, repeat: int) -> None:
        if repeat < 5 and self.sequences:  # a prompt that continues an earlier one
            earlier = list(self.sequences.values())[repeat % len(self.sequences)]
            prompt = (*earlier.tokens(0, earlier.num_tokens), *prompt)[:24]
        self._add(f"r{len(self.sequences)}", prompt, num_output, tenant)

    @precondition(lambda self: any(s.output_token_ids for s in self.sequences.values()))
    @rule(data=st.data(), num_followers=st.integers(1, 3))
    def follow(self, data: st.DataObject, num_followers: int) -> None:
        """Further sequences of a request whose prompt has KV."""
        begun = [s for s in self.sequences.values() if s.output_token_ids]
        first = data.draw(st.sampled_from(begun))
        for _ in range(num_followers):
            index = sum(s.request_id == first.request_id for s in self.sequences.values())
            self._add(
                first.request_id,
                tuple(first.prompt_token_ids),
                first.max_output_tokens,
                first.isolation_key,
                index,
            )

    def _add(
        self,
        request_id: str,
        prompt: tuple[int, ...],
        num_output: int,
        tenant: str,
        index: int = 0,
        num_handed_over: int = 0,
    ) -> None:
        sequence_id = len(self.sequences)
        sequence = Sequence(
            request_id=request_id,
            sequence_id=sequence_id,
            prompt_token_ids=prompt,
            max_output_tokens=num_output,
            index=index,
            isolation_key=tenant,
            output_token_ids=generate(prompt, num_handed_over),
            num_handed_over_tokens=num_handed_over,
        )
        self.sequences[sequence_id] = sequence
        pool = self.scheduler.pool
        can_fit = pool.num_blocks_for(sequence.num_tokens) <= pool.num_blocks
        refusal = self.scheduler.add(sequence)
        assert (refusal is None) == can_fit
        if refusal is not None:
            assert refusal.kind is RefusalKind.POOL
            self.ended[sequence_id] = "refused"
            self.num_released[sequence_id] = 1  # it never held anything

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def cancel_request(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(list(self.sequences.values())))
        for ended in self.scheduler.finish(sequence.request_id):
            self._note_end(ended, "cancelled")
        assert self.scheduler.finish(sequence.request_id) == []

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def stop_sequence(self, data: st.DataObject) -> None:
        sequence_id = data.draw(st.sampled_from(list(self.sequences)))
        ended = self.scheduler.finish_sequence(sequence_id)
        assert (ended is None) == (sequence_id in self.ended)
        if ended is not None:
            self._note_end(ended, "cancelled")

    @precondition(lambda self: self.plan is None and self.sequences)
    @rule(data=st.data(), is_paused=st.booleans())
    def pause(self, data: st.DataObject, is_paused: bool) -> None:
        sequence_id = data.draw(st.sampled_from(list(self.sequences)))
        self._pause(sequence_id, is_paused)

    def _pause(self, sequence_id: int, is_paused: bool) -> None:
        self.scheduler.pause(sequence_id, is_paused)
        if is_paused and sequence_id not in self.ended:
            self.paused.add(sequence_id)
        else:
            self.paused.discard(sequence_id)

    @rule()
    def retire(self) -> None:
        self._note_released(self.scheduler.retire())

    @precondition(lambda self: self.plan is None)
    @rule()
    def schedule(self) -> None:
        running = [s for s in self.sequences.values() if s.status is SequenceStatus.RUNNING]
        plan = self.scheduler.schedule()
        for sequence in plan.admitted:
            if sequence.num_handed_over_tokens:
                self.kv.receive(sequence)
        self._note_plan(plan)
        self._check_sharing(plan, running)
        self._check_budgets(plan)
        self._check_progress(plan)
        self.plan = plan if plan.chunks else None

    @precondition(lambda self: self.plan is not None)
    @rule()
    def run_and_commit(self) -> None:
        assert self.plan is not None
        # A sequence that was cancelled meanwhile still runs: its blocks must still be its own.
        selected = self.kv.run(self.plan)
        for sequence in self.scheduler.commit(self.plan, selected):
            self._note_end(sequence, "limit")
            if sequence.sequence_id % 3 == 0:
                self.scheduler.hold(sequence.sequence_id)
                self.held[sequence.sequence_id] = sequence
        self.plan = None

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self._let_go(data.draw(st.sampled_from(list(self.held))))

    def _let_go(self, sequence_id: int) -> None:
        sequence = self.held.pop(sequence_id)
        self.kv.check(sequence)
        self.scheduler.let_go(sequence_id)
        self._note_released([sequence])

    @precondition(lambda self: self.plan is None)
    @rule(num_steps=st.integers(2, 6))
    def run_steps(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.schedule()
            self.scheduler.check_integrity()
            if self.plan is not None:
                self.run_and_commit()

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "scheduler"):
            self.scheduler.check_integrity()

    @invariant()
    def everything_but_the_newest_token_is_cached(self) -> None:
        """Invariant 4: once caught up, exactly the selected token lacks KV."""
        for sequence in getattr(self, "sequences", {}).values():
            assert sequence.num_computed_tokens < sequence.num_tokens

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for _ in range(MAX_STEPS_TO_DRAIN):
            if self.plan is not None:
                self.run_and_commit()
            for sequence_id in list(self.held):
                self._let_go(sequence_id)
            for sequence_id in list(self.paused):
                self._pause(sequence_id, is_paused=False)
            if not self.scheduler.has_work:
                break
            self.schedule()
            self.scheduler.check_integrity()
        self._check_drained()

    def _check_drained(self) -> None:
        assert not self.scheduler.has_work
        stats = self.scheduler.stats
        assert (stats.num_running, stats.num_waiting, stats.num_referenced_blocks) == (0, 0, 0)
        assert stats.num_free_blocks == self.scheduler.config.num_blocks
        assert self.num_released == dict.fromkeys(self.sequences, 1)
        for sequence_id, sequence in self.sequences.items():
            self._check_output(sequence, self.ended[sequence_id])

    def _check_output(self, sequence: Sequence, ended: str) -> None:
        assert sequence.status is SequenceStatus.FINISHED
        output = sequence.output_token_ids
        assert output == generate(tuple(sequence.prompt_token_ids), len(output))
        if ended == "limit":
            assert len(output) == sequence.max_output_tokens
        if ended == "outgrown":
            pool = self.scheduler.pool
            assert pool.num_blocks_for(sequence.num_tokens) == pool.num_blocks + 1

    def _check_budgets(self, plan: StepPlan) -> None:
        config, pool = self.scheduler.config, self.scheduler.pool
        num_tokens = sum(chunk.num_tokens for chunk in plan.chunks)
        assert num_tokens == plan.num_prompt_tokens + plan.num_decode_steps
        assert num_tokens <= config.max_num_batched_tokens
        if config.max_prefill_tokens_per_step is not None:
            assert plan.num_prompt_tokens <= config.max_prefill_tokens_per_step
        for chunk in plan.chunks:
            stop = chunk.start + chunk.num_tokens
            assert chunk.num_tokens > 0
            assert len(chunk.sequence.block_table) >= pool.num_blocks_for(stop)
            assert chunk.selects_token == (stop == chunk.sequence.num_tokens)

    def _check_sharing(self, plan: StepPlan, running: list[Sequence]) -> None:
        """Who is admitted beside a running sequence of its request reads its prompt's blocks."""
        pool = self.scheduler.pool
        for sequence in plan.admitted if self.scheduler.config.is_prefix_caching else ():
            for other in running:
                is_ahead = other.num_computed_tokens >= sequence.num_prompt_tokens
                if other.request_id == sequence.request_id and other.block_table and is_ahead:
                    num_shared = (sequence.num_prompt_tokens - 1) // pool.block_size
                    shared = sequence.block_table[:num_shared]
                    assert sequence.num_cached_tokens == num_shared * pool.block_size
                    for block_id in shared:
                        assert block_id not in other.block_table or pool.ref_count(block_id) > 1

    def _check_progress(self, plan: StepPlan) -> None:
        running = [
            s for s in self.sequences.values() if s.status is SequenceStatus.RUNNING
        ]  # ids are in arrival order
        waiting = [
            s
            for s in self.sequences.values()
            if s.status in (SequenceStatus.WAITING, SequenceStatus.PREEMPTED)
        ]
        if (self.held or self.paused) and not plan.chunks:
            pass  # what is held may be all that they need
        elif running:
            going = [s for s in running if s.sequence_id not in self.paused]
            scheduled = {c.sequence.sequence_id for c in plan.chunks}
            if running[0] in going:
                assert running[0].sequence_id in scheduled, "the oldest must progress"
            stalled = {s.sequence_id for s in plan.stalled}
            decoding = {s.sequence_id for s in going if s.is_decoding}
            assert decoding <= scheduled | stalled
            begun = {s.sequence_id for s in (*plan.admitted, *plan.resumed)}
            assert not (scheduled - begun) & self.paused
        elif waiting:
            raise AssertionError(f"nothing runs and {len(waiting)} wait: {plan.blocked_on}")
        if running and waiting:
            assert running[-1].sequence_id < waiting[0].sequence_id, "nothing overtakes"
        assert (plan.deferred_on is None) == (not waiting)

    def _note_plan(self, plan: StepPlan) -> None:
        self._note_released(plan.released)
        for refusal in plan.refused:
            self._note_end(refusal.sequence, "outgrown")
        states = [*plan.admitted, *plan.resumed, *plan.preempted]
        assert len({s.sequence_id for s in states}) == len(states)

    def _note_end(self, sequence: Sequence, why: str) -> None:
        assert sequence.sequence_id not in self.ended
        self.ended[sequence.sequence_id] = why

    def _note_released(self, sequences: Iterable[Sequence]) -> None:
        running = {c.sequence.sequence_id for c in self.plan.chunks} if self.plan else set()
        for sequence in sequences:
            assert sequence.is_finished
            assert sequence.sequence_id not in running, "released under a running step"
            self.num_released[sequence.sequence_id] = (
                self.num_released.get(sequence.sequence_id, 0) + 1
            )


TestAnyTraffic = AnyTraffic.TestCase
TestAnyTraffic.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
