"""The sequences of one simulated request that asked for several answers (`n > 1`).

The first computes the prompt; the others follow once that has KV, as in an engine (see
`dataplane.host.active_request`). The request ends with the last of them, and is released with it.
Where prefill and decode are phases on replicas of their own, it has a group on the decode replica
alone (see `handover`). A request of one sequence has none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dataplane.scheduling.sequence import Sequence

_FOLLOWERS_APART = 2**40
"""Between the ids of two sequences of a request: requests are fewer."""


@dataclass(slots=True)
class Pace:
    """When one sequence selected its first and its last token, and how many it has."""

    first_at: float
    last_at: float | None = None
    num_tokens: int = 1

    @property
    def tpot(self) -> float | None:
        """None: it has no two tokens, or has not ended."""
        if self.last_at is None or self.num_tokens < 2:
            return None
        return (self.last_at - self.first_at) / (self.num_tokens - 1)


@dataclass(slots=True)
class SequenceGroup:
    """Of one attempt."""

    first: Sequence
    num_following: int
    """Those that wait for the prompt to be computed."""
    is_cancelled: bool = False
    """Whatever is added from now on is to be ended at once."""
    sequences: list[Sequence] = field(default_factory=list)
    """Those that were added, by index."""
    paces: dict[int, Pace] = field(default_factory=dict)
    """By index, of those that have a token."""
    _num_ended: int = 0
    _num_released: int = 0

    def __post_init__(self) -> None:
        self.sequences.append(self.first)

    @property
    def num_output_tokens(self) -> int:
        """Of all of them."""
        return sum(sequence.num_output_tokens for sequence in self.sequences)

    @property
    def num_tokens_of_longest(self) -> int:
        """Of the one that has most."""
        return max(sequence.num_output_tokens for sequence in self.sequences)

    @property
    def slowest_tpot(self) -> float | None:
        """None: no sequence has a pace."""
        paces = [pace.tpot for pace in self.paces.values()]
        return max((tpot for tpot in paces if tpot is not None), default=None)

    def followers(self, answers: tuple[range, ...]) -> Iterator[Sequence]:
        """Make the others, once the prompt has KV."""
        first = self.first
        while self.num_following:
            self.num_following -= 1
            index = len(self.sequences)
            sequence = Sequence(
                request_id=first.request_id,
                sequence_id=first.sequence_id + index * _FOLLOWERS_APART,
                prompt_token_ids=first.prompt_token_ids,
                max_output_tokens=first.max_output_tokens,
                index=index,
                isolation_key=first.isolation_key,
                script=answers[index - 1],
            )
            self.sequences.append(sequence)
            yield sequence

    def begin(self, sequence: Sequence, now: float) -> None:
        """It selected its first token."""
        self.paces[sequence.index] = Pace(now)

    def end(self, sequence: Sequence, now: float) -> bool:
        """It has its last token; True when that was the last of all."""
        pace = self.paces.get(sequence.index)
        if pace is not None:  # else its request had ended before it began
            pace.last_at, pace.num_tokens = now, sequence.num_output_tokens
        self._num_ended += 1
        return self._num_ended == len(self.sequences) and not self.num_following

    def release_one(self) -> bool:
        """One was released; True when nothing more is held or to come."""
        self._num_released += 1
        return self._num_released == len(self.sequences) and not self.num_following
