"""Sequences that have ended and still hold blocks, until nobody reads these any more."""

from dataplane.scheduling.block_tables import BlockTables
from dataplane.scheduling.errors import SchedulerError
from dataplane.scheduling.sequence import Sequence


class Finished:
    """Those of one scheduler. The running step reads some; others are held for somebody else."""

    def __init__(self, tables: BlockTables) -> None:
        self._tables = tables
        self.to_retire: list[Sequence] = []
        """For reading alone."""
        self._held: dict[int, Sequence] = {}  # not to be retired yet
        self._in_flight: set[Sequence] = set()  # of both, whom the running step reads

    def __len__(self) -> int:
        return len(self.to_retire) + len(self._held)

    @property
    def num_held(self) -> int:
        """Those that wait for `let_go`."""
        return len(self._held)

    def all(self) -> list[Sequence]:
        """All of them."""
        return [*self.to_retire, *self._held.values()]

    def add(self, sequence: Sequence, is_in_flight: bool = False) -> None:
        """It has ended; the running step may read it still."""
        self.to_retire.append(sequence)
        if is_in_flight:
            self._in_flight.add(sequence)

    def land(self) -> None:
        """No step runs any more."""
        if self._in_flight:
            self._in_flight.clear()

    def retire(self) -> list[Sequence]:
        """Give back the blocks of all that are not held and that the running step does not read."""
        retired = self.to_retire
        if not retired:
            return []
        in_flight = self._in_flight
        self.to_retire = []
        if in_flight:
            self.to_retire = [s for s in retired if s in in_flight]
            retired = [s for s in retired if s not in in_flight]
        for sequence in retired:
            self._tables.release(sequence)
        return retired

    def hold(self, sequence: Sequence) -> None:
        """Retire it no more until `let_go`. Raises SchedulerError for one that is not to be."""
        if sequence not in self.to_retire:
            raise SchedulerError(
                f"sequence {sequence.sequence_id} is not finished; hold what has ended"
            )
        self.to_retire.remove(sequence)
        self._held[sequence.sequence_id] = sequence

    def let_go(self, sequence_id: int) -> bool:
        """Release one that was held, now; False, and it goes with the next `retire` after it, when
        the running step reads it. Raises SchedulerError for any other."""
        sequence = self._held.pop(sequence_id, None)
        if sequence is None:
            raise SchedulerError(f"sequence {sequence_id} is not held; let go of each once")
        if sequence in self._in_flight:
            self.to_retire.append(sequence)
            return False
        self._tables.release(sequence)
        return True
