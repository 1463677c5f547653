"""Whatever is asked, stopped and cancelled: every request lives one legal life and leaves nothing.

Each event that a stepped core tells is applied to the gateway's own state machine, which refuses
what cannot follow. Each engine's tests say how its core is built.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from dataplane.engine import EngineRequest, SamplingParams
from dataplane.host.core import CoreEvent
from dataplane.host.stepped_core import SteppedCore
from dataplane.lifecycle import ANSWERS, Delivery, Disposition, Event, EventKind, Lifecycle

MAX_STEPS_TO_DRAIN = 2000
FEW_EXAMPLES = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class AnyRequests(RuleBasedStateMachine):
    """Requests of one to four sequences over a pool that holds a part of them. Prompts are of
    tokens 1 to 3."""

    core: SteppedCore[Any]

    def build_core(self, **settings: Any) -> SteppedCore[Any]:
        """A started core with these settings."""
        raise NotImplementedError

    @initialize(
        num_slots=st.integers(1, 5),
        num_blocks=st.integers(12, 40),
        prefill=st.integers(1, 12),
        prefix_caching=st.booleans(),
    )
    def build(self, num_slots: int, num_blocks: int, prefill: int, prefix_caching: bool) -> None:
        self.core = self.build_core(
            num_blocks=num_blocks,
            block_size=2,
            max_num_seqs=num_slots,
            max_prefill_tokens_per_step=prefill,
            max_model_len=24,
            prefix_caching=prefix_caching,
        )
        self.lives: dict[str, Lifecycle] = {}
        self.requests: dict[str, EngineRequest] = {}
        self.outputs: dict[tuple[str, int], list[int]] = {}

    @rule(
        prompt=st.lists(st.integers(1, 3), min_size=1, max_size=12).map(tuple),
        num_sequences=st.integers(1, 4),
        max_output_tokens=st.integers(1, 8),
        is_greedy=st.booleans(),
    )
    def add(
        self,
        prompt: tuple[int, ...],
        num_sequences: int,
        max_output_tokens: int,
        is_greedy: bool,
    ) -> None:
        request_id = f"r{len(self.lives)}"
        life = Lifecycle(request_id=request_id, arrived_at_unix_ns=0)
        life.apply(Event(kind=EventKind.ARRIVED, at=0.0))
        life.expect_sequences(num_sequences)
        for kind in (EventKind.RECEIVED, EventKind.ADMITTED):
            life.apply(Event(kind=kind, at=0.0))
        self.lives[request_id] = life
        self.requests[request_id] = EngineRequest(
            request_id=request_id,
            attempt=0,
            endpoint="/v1/completions",
            prompt_token_ids=prompt,
            sampling=SamplingParams(
                max_output_tokens=max_output_tokens,
                temperature=0.0 if is_greedy else 1.0,
                seed=7,
                num_sequences=num_sequences,
            ),
        )
        self.take(self.core.add(self.requests[request_id]))

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.lives)))
        was_over = self.lives[request_id].is_terminal
        told = self.core.finish(request_id, Disposition.CANCELLED)
        assert bool(told) is not was_over
        self.take(told)

    @precondition(lambda self: any(self.outputs.values()))
    @rule(data=st.data())
    def stop_one(self, data: st.DataObject) -> None:
        # A stop string stands in text, so there is a token before one sequence is stopped.
        spoken = sorted(key for key, token_ids in self.outputs.items() if token_ids)
        request_id, sequence = data.draw(st.sampled_from(spoken))
        self.take(self.core.finish(request_id, Disposition.STOP, sequence))

    @rule(num_steps=st.integers(1, 6))
    def step(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.take(self.core.schedule())
            self.take(self.core.run())
            self.core.check_integrity()

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "core"):
            self.core.check_integrity()

    def take(self, events: list[CoreEvent]) -> None:
        for event in events:
            self.lives[event.request_id].apply(
                Event(
                    kind=event.kind,
                    at=0.0,
                    sequence=event.sequence,
                    num_tokens=event.num_tokens,
                    disposition=event.disposition,
                )
            )
            key = event.request_id, event.sequence
            self.outputs.setdefault(key, []).extend(event.token_ids)

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        for _ in range(MAX_STEPS_TO_DRAIN):
            if not self.core.has_work:
                break
            self.step(1)
        stats = self.core.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_unreleased) == (0, 0, 0)
        assert stats.num_referenced_blocks == 0
        for request_id, life in self.lives.items():
            self._check_end(request_id, life)

    def _check_end(self, request_id: str, life: Lifecycle) -> None:
        assert life.is_terminal
        assert life.is_released
        life.apply(Event(kind=EventKind.LAST_WRITE, at=0.0, delivery=Delivery.NONE))
        sampling = self.requests[request_id].sampling
        if life.disposition in ANSWERS and sampling.temperature == 0:
            answers = [self.outputs[request_id, index] for index in range(sampling.num_sequences)]
            longest = max(answers, key=len)  # a stop may have ended some earlier
            assert all(answer == longest[: len(answer)] for answer in answers)
