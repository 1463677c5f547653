"""Selects a token from logits, greedily or at random.

Randomness is counted, not streamed: the number behind a sequence's n-th output token
depends on the request's seed, the sequence's place in the request and n alone. Who else is
in the batch, a preemption, or a step that is run again changes nothing.
"""

from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass

import numpy as np
import torch

_NUM_CANDIDATES = 256
_MIN_TEMPERATURE = 1e-5
"""Below it the likeliest token is as good as certain, and dividing by it would leave the range of
numbers: what comes of that has no probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionParams:
    """How one row selects its token."""

    temperature: float
    """0, and what is hardly more, is greedy."""
    top_p: float
    top_k: int | None
    seed: int
    stream: int = 0
    """Which of the sequences that share the seed."""
    index: int
    """Output tokens selected before this one."""


def select(logits: torch.Tensor, params: ReadableSequence[SelectionParams]) -> list[int]:
    """One token id for each row of float32 logits, [rows, vocab_size]."""
    selected: list[int] = logits.argmax(dim=-1).tolist()
    sampled = [row for row, p in enumerate(params) if p.temperature >= _MIN_TEMPERATURE]
    for row in sampled:
        selected[row] = _sample(logits[row], params[row])
    return selected


def uniform(seed: int, index: int, stream: int = 0) -> float:
    """The `index`-th number in [0, 1) of one `stream` of `seed`. Any integer is a seed."""
    bits = np.random.Philox(key=(seed % 2**64) + (stream << 64), counter=index)
    return float(np.random.Generator(bits).random())


def _sample(logits: torch.Tensor, params: SelectionParams) -> int:
    """Inverse transform: the first token whose cumulative probability passes the number."""
    number = uniform(params.seed, params.index, params.stream)
    probabilities = torch.softmax(logits.double() / params.temperature, dim=-1)
    if params.top_k is None and params.top_p >= 1.0:
        return _invert(probabilities, number)
    candidates, token_ids = _find_candidates(probabilities, params)
    return int(token_ids[_invert(candidates, number)])


def _find_candidates(
    probabilities: torch.Tensor, params: SelectionParams
) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest tokens within top_k, and of those the ones within top_p, with their ids."""
    vocab_size = len(probabilities)
    if params.top_k is not None:
        candidates, token_ids = torch.topk(probabilities, min(params.top_k, vocab_size))
        candidates = candidates / candidates.sum()
    else:
        # A partial sort usually reaches far enough; the whole vocabulary is sorted only when not.
        candidates, token_ids = torch.topk(probabilities, min(_NUM_CANDIDATES, vocab_size))
        if float(candidates.sum()) < params.top_p:
            candidates, token_ids = torch.sort(probabilities, descending=True)
    if params.top_p < 1.0:
        # A token stays while those before it do not reach top_p; the first always does.
        before = candidates.cumsum(0) - candidates
        num_kept = max(1, int((before < params.top_p).sum()))
        candidates, token_ids = candidates[:num_kept], token_ids[:num_kept]
    return candidates, token_ids


def _invert(weights: torch.Tensor, number: float) -> int:
    cumulative = weights.cumsum(0)
    target = number * float(cumulative[-1])
    index = int(torch.searchsorted(cumulative, target, right=True))
    return min(index, len(weights) - 1)
