"""How the sequences of one step select their tokens: the model's logits in, tokens out.

::

    logits --- log-softmax -------------------------------> scores: what the model said
       \\------ adjustment (bias, penalties) --- sampler --> the token that is selected

Scores are of the model's own distribution; whatever a request asks for changes the choice
and never what is reported of it.
"""

from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass

import torch

from dataplane.engine import SamplingParams
from dataplane.host.core import TokenScore
from dataplane.host.runner import Selected
from dataplane.scheduling.sequence import Sequence
from pilothouse_paged.adjustment import LogitAdjustment
from pilothouse_paged.sampler import SelectionParams, select


@dataclass(slots=True, kw_only=True)
class Selector:
    """Selects for one sequence; `seed` is the request's."""

    sequence: Sequence
    sampling: SamplingParams
    seed: int
    adjustment: LogitAdjustment

    @property
    def params(self) -> SelectionParams:
        """For the sequence's next token."""
        return SelectionParams(
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
            top_k=self.sampling.top_k,
            seed=self.seed,
            stream=self.sequence.index,
            index=self.sequence.num_output_tokens,
        )


def select_tokens(logits: torch.Tensor, selectors: ReadableSequence[Selector]) -> list[Selected]:
    """One token for each row of float32 logits, [rows, vocab_size]."""
    adjusted = _adjust(logits, selectors)
    token_ids = select(adjusted, [selector.params for selector in selectors])
    return [
        Selected(token_id=token_id, score=_score(row, token_id, selector.sampling.num_logprobs))
        for row, token_id, selector in zip(logits, token_ids, selectors, strict=True)
    ]


def _adjust(logits: torch.Tensor, selectors: ReadableSequence[Selector]) -> torch.Tensor:
    rows = {
        row: selector.adjustment.apply(logits[row], selector.sequence.output_token_ids)
        for row, selector in enumerate(selectors)
        if selector.adjustment.is_needed(selector.sequence.num_output_tokens)
    }
    if not rows:
        return logits
    return torch.stack([rows.get(row, logits[row]) for row in range(len(selectors))])


def _score(logits: torch.Tensor, token_id: int, num_top: int | None) -> TokenScore | None:
    if num_top is None:
        return None
    logprobs = torch.log_softmax(logits, dim=-1)
    top = torch.topk(logprobs, min(num_top, len(logprobs)))
    return TokenScore(
        token_id=token_id,
        logprob=float(logprobs[token_id]),
        top=tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True)),
    )
