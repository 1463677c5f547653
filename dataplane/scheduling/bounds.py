"""The bounds that a scheduler keeps, and the refusal of what can never fit them."""

from dataclasses import dataclass
from enum import StrEnum

from dataplane.scheduling.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """The bounds of a step and of the pool. Raises ValueError for what could never run."""

    max_num_seqs: int
    """Slots: sequences admitted at once, those in prefill included."""
    max_num_batched_tokens: int
    """Tokens of one step, prompt and decode together."""
    max_model_len: int
    """Prompt plus output tokens of one sequence."""
    num_blocks: int
    block_size: int
    """Tokens."""
    max_prefill_tokens_per_step: int | None = None
    """Prompt tokens of one step, shared in arrival order; None: only the bound above."""
    is_prefix_caching: bool = True

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_model_len", "num_blocks", "block_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, but each of "
                f"max_num_seqs = {self.max_num_seqs} sequences decodes one token a step; "
                f"raise the first or lower the second"
            )
        if self.max_prefill_tokens_per_step is not None and self.max_prefill_tokens_per_step < 1:
            raise ValueError(
                f"max_prefill_tokens_per_step is {self.max_prefill_tokens_per_step}: no prompt "
                f"could ever be computed; set at least 1, or leave it out for no bound"
            )

    @property
    def num_slots(self) -> int:
        """Tokens that the whole pool can hold."""
        return self.num_blocks * self.block_size

    @property
    def max_prompt_tokens(self) -> int:
        """Prompt tokens of one step, all bounds considered."""
        if self.max_prefill_tokens_per_step is None:
            return self.max_num_batched_tokens
        return min(self.max_prefill_tokens_per_step, self.max_num_batched_tokens)


class RefusalKind(StrEnum):
    """Which bound a sequence can never fit."""

    MAX_MODEL_LEN = "max_model_len"
    POOL = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A sequence that can never fit, and why. It is finished."""

    sequence: Sequence
    kind: RefusalKind
    reason: str


def find_refusal(config: SchedulerConfig, sequence: Sequence) -> Refusal | None:
    """Why a new sequence can never run; None when it can.

    Only the prompt must fit the pool: the output limit is a bound that few sequences
    reach, and one that outgrows the pool is refused when it does.
    """
    most = sequence.num_prompt_tokens + sequence.max_output_tokens
    if most <= config.max_model_len:
        if most <= config.num_blocks * config.block_size:
            return None  # as nearly always
        return find_pool_refusal(config, sequence)
    return Refusal(
        sequence=sequence,
        kind=RefusalKind.MAX_MODEL_LEN,
        reason=(
            f"{sequence.num_prompt_tokens} prompt tokens and up to {sequence.max_output_tokens} "
            f"output tokens exceed the model's {config.max_model_len}; shorten the prompt or "
            f"ask for fewer"
        ),
    )


def find_pool_refusal(config: SchedulerConfig, sequence: Sequence) -> Refusal | None:
    """Why the next tokens of `sequence` do not fit even an empty pool; None when they do."""
    if sequence.num_tokens <= config.num_slots:
        return None
    return Refusal(
        sequence=sequence,
        kind=RefusalKind.POOL,
        reason=(
            f"{sequence.num_tokens} tokens exceed the KV pool's {config.num_slots} "
            f"({config.num_blocks} blocks of {config.block_size}); give the engine more KV "
            f"memory or ask for fewer tokens"
        ),
    )
