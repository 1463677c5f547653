"""One request in the engine: its sequences, from its submission until nothing of it is held.

The sequences of a request share its prompt. The first one computes it; the others *follow*:
they are added once the prompt has KV, find its full blocks in the prefix cache, and compute
the tail of the last one for themselves::

    block table of sequence 0   [ prompt ][ prompt ][ tail, output 0 ][ ...
    block table of sequence 1   [ the same blocks  ][ tail, output 1 ][ ...
                                  ref_count 2         its own
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic

from dataplane.engine import EngineRequest, EngineUse
from dataplane.host.runner import Runner, StateT
from dataplane.host.sequence_meter import SequenceMeter, sum_of
from dataplane.scheduling.sequence import Sequence


@dataclass(slots=True, kw_only=True)
class ActiveRequest(Generic[StateT]):
    """A request that is not released. `isolation_key` bounds what its blocks are shared with."""

    request: EngineRequest
    seed: int
    isolation_key: str
    runner: Runner[StateT]
    sequence_ids: Iterator[int]
    """Where new sequences get their ids."""
    is_paused: bool = False
    """Who wants it does not keep up."""
    _end_token_ids: Collection[int] = ()
    _sequences: list[Sequence] = field(default_factory=list)
    """By index; those that were added."""
    _states: list[StateT] = field(default_factory=list)
    """What each of them selects by."""
    _meters: list[SequenceMeter] = field(default_factory=list)
    """What each of them takes."""
    _num_following: int = 0
    _num_released: int = 0

    def __post_init__(self) -> None:
        sampling = self.request.sampling
        self._num_following = sampling.num_sequences - 1
        self._end_token_ids = () if sampling.ignore_eos else self.runner.end_token_ids

    @property
    def num_held(self) -> int:
        """Sequences that were added and are not released."""
        return len(self._sequences) - self._num_released

    @property
    def has_followers(self) -> bool:
        """Sequences wait for the prompt to be computed."""
        return self._num_following > 0

    def first(self) -> Sequence:
        """Make the sequence that computes the prompt."""
        return self._make()

    def followers(self) -> Iterator[Sequence]:
        """Make the others, once the prompt has KV."""
        while self._num_following:
            self._num_following -= 1
            yield self._make()

    def drop_followers(self) -> int:
        """The request ends before they were added; how many they were."""
        num_dropped, self._num_following = self._num_following, 0
        return num_dropped

    def sequences(self) -> list[Sequence]:
        """Those that were added, finished or not."""
        return list(self._sequences)

    def state_of(self, sequence: Sequence) -> StateT:
        """What `sequence` of this request selects by."""
        return self._states[sequence.index]

    def meter_of(self, sequence: Sequence) -> SequenceMeter:
        """What `sequence` of this request takes."""
        return self._meters[sequence.index]

    @property
    def used(self) -> EngineUse:
        """What all of them took."""
        return sum_of(self._meters)

    def is_end(self, token_id: int) -> bool:
        """`token_id` ends a sequence of this request."""
        return token_id in self._end_token_ids

    def release_one(self) -> bool:
        """One sequence was released; True when nothing more is held or to come."""
        self._num_released += 1
        return not self.num_held and not self.has_followers

    def _make(self) -> Sequence:
        sequence = Sequence(
            request_id=self.request.request_id,
            sequence_id=next(self.sequence_ids),
            prompt_token_ids=self.request.prompt_token_ids,
            max_output_tokens=self.request.sampling.max_output_tokens,
            index=len(self._sequences),
            isolation_key=self.isolation_key,
        )
        self._sequences.append(sequence)
        self._meters.append(SequenceMeter())
        self._states.append(self.runner.begin(sequence, self.request, self.seed))
        return sequence
