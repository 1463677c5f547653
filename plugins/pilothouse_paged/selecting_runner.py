"""Steps of the model, and the choice of a token from what they give: the host's Runner."""

from collections.abc import Collection, Mapping
from collections.abc import Sequence as ReadableSequence

from dataplane.engine import EngineRequest
from dataplane.host.runner import LiveChunk, Selected
from dataplane.scheduling.scheduler import ScheduledChunk, StepPlan
from dataplane.scheduling.sequence import Sequence
from pilothouse_paged.adjustment import LogitAdjustment
from pilothouse_paged.batch import Chunk
from pilothouse_paged.runner import Runner
from pilothouse_paged.selection import Selector, select_tokens

_PARAMETERS = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "min_tokens",
        "presence_penalty",
        "repetition_penalty",
        "top_k",
        "top_logprobs",
    }
)


class SelectingRunner:
    """Keeps a Selector for each sequence (see dataplane.host.runner)."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def vocab_size(self) -> int:
        """The model's."""
        return self._runner.shape.vocab_size

    @property
    def end_token_ids(self) -> Collection[int]:
        """The model's."""
        return self._runner.shape.end_token_ids

    @property
    def parameters(self) -> frozenset[str]:
        """All that `selection` applies."""
        return _PARAMETERS

    @property
    def ledger_lines(self) -> Mapping[str, int]:
        """As measured when the model was loaded."""
        return self._runner.ledger_lines

    def warm_up(self) -> None:
        """A short prefill and a decode."""
        self._runner.warm_up()

    def begin(self, sequence: Sequence, request: EngineRequest, seed: int) -> Selector:
        """What selects for a new sequence."""
        sampling = request.sampling
        return Selector(
            sequence=sequence,
            sampling=sampling,
            seed=seed,
            adjustment=LogitAdjustment(sampling, sequence.prompt_token_ids, self.end_token_ids),
        )

    def run(
        self, plan: StepPlan, live: ReadableSequence[LiveChunk[Selector]]
    ) -> Mapping[int, Selected]:
        """Compute, and select where a sequence has caught up."""
        sequence_ids, logits = self._runner.run([_to_chunk(each.chunk) for each in live])
        selector_by_id = {each.chunk.sequence.sequence_id: each.state for each in live}
        selectors = [selector_by_id[sequence_id] for sequence_id in sequence_ids]
        return dict(zip(sequence_ids, select_tokens(logits, selectors), strict=True))


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
