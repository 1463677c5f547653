"""What a request's parameters change in the logits of one sequence, before a token is selected.

In this order: bias is added; the model's end is masked while the output is too short; then
repetition (of prompt and output) divides, and frequency and presence (of the output alone)
subtract. Each is the arithmetic that OpenAI and the model libraries document for it.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable
from collections.abc import Sequence as ReadableSequence

import torch

from dataplane.engine import SamplingParams


class LogitAdjustment:
    """Counts the tokens of one sequence as it grows, and applies its request's parameters."""

    def __init__(
        self,
        sampling: SamplingParams,
        prompt_token_ids: Iterable[int],
        end_token_ids: Collection[int],
    ) -> None:
        self._sampling = sampling
        self._bias = _spread(dict(sampling.logit_bias))
        self._end_ids = torch.tensor(sorted(end_token_ids), dtype=torch.int64)
        self._penalizes = bool(sampling.presence_penalty or sampling.frequency_penalty)
        self._repeats = sampling.repetition_penalty != 1.0
        self._seen = set(prompt_token_ids) if self._repeats else set()
        self._counts: Counter[int] = Counter()
        self._num_counted = 0

    def is_needed(self, num_output_tokens: int) -> bool:
        """Something would change for the next token."""
        return bool(
            self._bias is not None
            or self._penalizes
            or self._repeats
            or num_output_tokens < self._sampling.min_output_tokens
        )

    def apply(self, logits: torch.Tensor, output_token_ids: ReadableSequence[int]) -> torch.Tensor:
        """Changed float32 logits, [vocab_size]; the given ones stay as they are."""
        self._count(output_token_ids)
        logits = logits.clone()
        if self._bias is not None:
            logits.index_add_(0, *(part.to(logits.device) for part in self._bias))
        if len(output_token_ids) < self._sampling.min_output_tokens:
            logits[self._end_ids.to(logits.device)] = -math.inf
        if self._repeats:
            self._divide(logits)
        if self._penalizes and self._counts:
            self._subtract(logits)
        return logits

    def _count(self, output_token_ids: ReadableSequence[int]) -> None:
        """Only what is new: an output only grows."""
        new = output_token_ids[self._num_counted :]
        self._num_counted += len(new)
        self._counts.update(new)
        if self._repeats:
            self._seen.update(new)

    def _divide(self, logits: torch.Tensor) -> None:
        ids = torch.tensor(sorted(self._seen), dtype=torch.int64, device=logits.device)
        values = logits[ids]
        penalty = self._sampling.repetition_penalty
        logits[ids] = torch.where(values > 0, values / penalty, values * penalty)

    def _subtract(self, logits: torch.Tensor) -> None:
        sampling = self._sampling
        ids, taken = _spread(
            {
                token_id: -(sampling.presence_penalty + sampling.frequency_penalty * count)
                for token_id, count in self._counts.items()
            }
        ) or (torch.empty(0, dtype=torch.int64), torch.empty(0))
        logits.index_add_(0, ids.to(logits.device), taken.to(logits.device))


def _spread(value_by_id: dict[int, float]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Ids and values as tensors, or None for nothing."""
    if not value_by_id:
        return None
    return (
        torch.tensor(list(value_by_id), dtype=torch.int64),
        torch.tensor(list(value_by_id.values()), dtype=torch.float32),
    )
