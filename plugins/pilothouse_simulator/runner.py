"""Steps that only take time: the host's Runner without a model."""

from collections.abc import Collection, Mapping
from collections.abc import Sequence as ReadableSequence

from dataplane.engine import EngineRequest
from dataplane.host.runner import LiveChunk, Selected
from dataplane.scheduling.scheduler import StepPlan
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.distributions import Distribution
from pilothouse_simulator.answer import Answer, plan_answer
from pilothouse_simulator.machine import Machine
from pilothouse_simulator.pace import Pace
from pilothouse_simulator.vocabulary import Vocabulary

_PARAMETERS = frozenset({"min_tokens"})
"""What else shapes the choice of a token would be taken and change nothing: it is refused."""


class SimulatedRunner:
    """Waits as long as a step costs (see dataplane.host.runner)."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        machine: Machine,
        lengths: Distribution,
        pace: Pace,
        ledger_lines: Mapping[str, int] | None,
    ) -> None:
        """`lengths` are those of answers, in tokens, their end included."""
        self._vocabulary = vocabulary
        self._end_token_id = min(vocabulary.end_token_ids)
        self._machine = machine
        self._lengths = lengths
        self._pace = pace
        self._ledger_lines = ledger_lines
        self._done_at: float | None = None
        """When the last step was."""

    @property
    def vocab_size(self) -> int:
        """The tokenizer's."""
        return self._vocabulary.size

    @property
    def end_token_ids(self) -> Collection[int]:
        """The tokenizer's."""
        return self._vocabulary.end_token_ids

    @property
    def parameters(self) -> frozenset[str]:
        """All that an answer heeds."""
        return _PARAMETERS

    @property
    def ledger_lines(self) -> Mapping[str, int] | None:
        """As the settings say."""
        return self._ledger_lines

    def warm_up(self) -> None:
        """As long as the start's stage takes."""
        self._pace.wait(self._machine.start_seconds.warm_up)

    def begin(self, sequence: Sequence, request: EngineRequest, seed: int) -> Answer:
        """What the sequence will say."""
        return plan_answer(
            request.sampling, seed, sequence.index, request.prompt_token_ids, self._lengths
        )

    def run(
        self, plan: StepPlan, live: ReadableSequence[LiveChunk[Answer]]
    ) -> Mapping[int, Selected]:
        """Let the step's time pass. What ended meanwhile is paid for like the rest of it.

        What scheduling and telling took is part of it: a step that goes on with what the last
        one computed began when that was to be done, however late we are.
        """
        is_next = len(live) > len(plan.admitted) + len(plan.resumed)
        cost = self._machine.cost.step_time(plan)
        self._done_at = self._pace.after(cost, self._done_at if is_next else None)
        selected = {
            each.chunk.sequence.sequence_id: Selected(token_id=self._next_token(each))
            for each in live
            if each.chunk.selects_token
        }
        self._pace.until(self._done_at)
        return selected

    def _next_token(self, live: LiveChunk[Answer]) -> int:
        position = live.chunk.sequence.num_output_tokens
        return live.state.token_at(position, self._vocabulary.words, self._end_token_id)
