"""What a sequence will say: a length, and a token for each position, known from the start.

Both depend on the request's seed, the prompt, and the sequence's place in the request alone: who
else is in the batch, a preemption, or a step that is run again changes nothing. A greedy request
has one answer, whatever its seed and however often it is asked for.
"""

import array
import hashlib
from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass

from dataplane.engine import SamplingParams
from dataplane.simulation.distributions import Distribution, draw_length
from dataplane.simulation.random_streams import random_stream

_GREEDY_BELOW = 1e-5
"""A temperature that the native engine takes for greedy, too."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One sequence's."""

    key: bytes
    end_at: int | None
    """Position of the end token; None: nothing but its limit ends it."""

    def token_at(self, position: int, words: ReadableSequence[int], end_token_id: int) -> int:
        """The token selected behind `position` others, out of `words`."""
        if self.end_at is not None and position >= self.end_at:
            return end_token_id
        digest = hashlib.blake2b(position.to_bytes(8), key=self.key, digest_size=8).digest()
        return words[int.from_bytes(digest) % len(words)]


def plan_answer(
    sampling: SamplingParams,
    seed: int,
    index: int,
    prompt_token_ids: ReadableSequence[int],
    lengths: Distribution,
) -> Answer:
    """The answer of sequence `index` of a request."""
    if sampling.temperature < _GREEDY_BELOW:
        seed, index = 0, 0
    prompt = hashlib.blake2b(array.array("q", prompt_token_ids).tobytes(), digest_size=16)
    name = f"{seed}/{index}/{prompt.hexdigest()}"
    key = hashlib.blake2b(name.encode(), digest_size=32).digest()
    if sampling.ignore_eos:
        return Answer(key, None)
    length = draw_length(lengths, random_stream(seed, "length", name))
    return Answer(key, max(length - 1, sampling.min_output_tokens))
