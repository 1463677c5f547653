"""Invariant 4, of the sequences of a fleet, from one look to the next.

What is cached after a token was selected is everything but that token. One that was preempted
computes its tokens again, and selects none until it has them all: then the invariant holds of
it again, until it is preempted once more.
"""

from dataplane.scheduling.sequence import Sequence, SequenceStatus


class CacheWatch:
    """Give it every sequence that is not released, at every look."""

    def __init__(self) -> None:
        self._behind: dict[Sequence, tuple[int, int, int]] = {}
        """Of those that catch up: preemptions, tokens, and how many of these have KV."""
        self._caught_up: dict[Sequence, int] = {}
        """Preemptions of those that have caught up."""

    def look(self, sequences: list[Sequence]) -> None:
        """Raises AssertionError where the invariant does not hold."""
        for sequence in sequences:
            if sequence.status is SequenceStatus.RUNNING and sequence.num_output_tokens:
                self._check(sequence)
        alive = set(sequences)
        self._behind = {s: was for s, was in self._behind.items() if s in alive}
        self._caught_up = {s: was for s, was in self._caught_up.items() if s in alive}

    def _check(self, sequence: Sequence) -> None:
        num_behind, num_preemptions = sequence.num_tokens_behind, sequence.num_preemptions
        if num_behind > 1:
            assert num_preemptions > self._caught_up.get(sequence, 0), f"{sequence} fell behind"
            self._check_progress(sequence)
            return
        assert num_behind == 1, f"{sequence} has KV of a token that it selected last"
        self._caught_up[sequence] = num_preemptions
        self._behind.pop(sequence, None)

    def _check_progress(self, sequence: Sequence) -> None:
        """While it catches up, it computes and does not select."""
        now = (sequence.num_preemptions, sequence.num_tokens, sequence.num_computed_tokens)
        before = self._behind.get(sequence, now)
        self._behind[sequence] = now
        if before[0] == now[0]:
            assert before[1] == now[1], f"{sequence} selected while it was behind"
            assert before[2] <= now[2], f"{sequence} lost KV and was not preempted"
