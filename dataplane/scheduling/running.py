"""The running sequences: those that decode together, and those that are looked at one by one.

::

    running   = the cohort: caught up, one token further with every step
              + apart: in prefill, recomputing, stalled or paused; few, visited in every step
"""

from bisect import insort

from dataplane.scheduling.cohort import Cohort, by_rank
from dataplane.scheduling.sequence import Sequence


class Running:
    """Admitted sequences, in order of age. Each holds one slot."""

    def __init__(self, block_size: int) -> None:
        self.cohort = Cohort(block_size)
        self.apart: list[Sequence] = []
        """Oldest first."""
        self._sequence_by_rank: dict[int, Sequence] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._sequence_by_rank)

    @property
    def newest(self) -> Sequence:
        """The one that was admitted last. There must be one."""
        return next(reversed(self._sequence_by_rank.values()))

    @property
    def num_decoding(self) -> int:
        """Sequences of which only the newest token lacks KV."""
        num_apart = sum([s.is_decoding for s in self.apart]) if self.apart else 0
        return len(self.cohort) + num_apart

    def all(self) -> list[Sequence]:
        """All of them, oldest first."""
        return list(self._sequence_by_rank.values())

    def to_visit(self) -> list[Sequence]:
        """Whom a step must look at before it runs, oldest first: the others need nothing."""
        return self._with_crossing(self.apart)

    def filled(self, advanced: list[Sequence]) -> list[Sequence]:
        """Who may have filled blocks with the last step, oldest first: `advanced`, who were apart,
        and the cohort's."""
        return self._with_crossing(advanced)

    def _with_crossing(self, others: list[Sequence]) -> list[Sequence]:
        visited = [member.sequence for member in self.cohort.crossing]
        if others:
            visited += others
            visited.sort(key=by_rank)
        return visited

    def admit(self, sequence: Sequence) -> None:
        """Take in the next sequence; it is newer than all others."""
        self._sequence_by_rank[sequence.rank] = sequence
        self.apart.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Let a sequence go."""
        del self._sequence_by_rank[sequence.rank]
        if sequence.tick is None:
            self.apart.remove(sequence)
        else:
            self.cohort.leave(sequence)

    def catch_up(self, sequence: Sequence) -> None:
        """One that was apart has caught up: it goes on with the cohort."""
        self.apart.remove(sequence)
        self.cohort.join(sequence)

    def stall(self, sequence: Sequence) -> None:
        """The newest gets nothing in this step: it is apart until it has caught up again."""
        if sequence.tick is not None:
            self.cohort.leave(sequence)
            self.apart.append(sequence)

    def set_apart(self, sequence: Sequence) -> None:
        """Any that runs is visited from now on, until it has caught up again."""
        if sequence.tick is not None:
            self.cohort.leave(sequence)
            insort(self.apart, sequence, key=by_rank)

    def check_integrity(self) -> None:
        """Raises AssertionError when a running sequence is not in exactly one of both."""
        ranks = list(self._sequence_by_rank)
        apart = [sequence.rank for sequence in self.apart]
        members = [member.sequence.rank for member in self.cohort.members]
        if ranks != sorted(ranks) or apart != sorted(apart):
            raise AssertionError(f"running out of order: {ranks}, apart {apart}")
        if sorted([*apart, *members]) != ranks:
            raise AssertionError(
                f"{len(ranks)} run, {len(apart)} apart and {len(members)} in the cohort"
            )
        for sequence in self.apart:
            if sequence.tick is not None:
                raise AssertionError(f"{sequence} is apart and follows the cohort's tick")
        self.cohort.check_integrity()
