"""Where a sequence stands, and what can follow."""

from enum import StrEnum


class SequenceStatus(StrEnum):
    """Where a sequence stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    """Lost its blocks and waits to be computed again; its output is kept."""
    FINISHED = "finished"
    """Nothing more is selected. It may still hold blocks until it is retired."""


# What is not listed here cannot happen.
TRANSITIONS: dict[SequenceStatus, frozenset[SequenceStatus]] = {
    SequenceStatus.WAITING: frozenset({SequenceStatus.RUNNING, SequenceStatus.FINISHED}),
    SequenceStatus.RUNNING: frozenset({SequenceStatus.PREEMPTED, SequenceStatus.FINISHED}),
    SequenceStatus.PREEMPTED: frozenset({SequenceStatus.RUNNING, SequenceStatus.FINISHED}),
    SequenceStatus.FINISHED: frozenset(),
}


class SequenceStatusError(Exception):
    """A status that cannot follow the present one: a bug in the caller."""

    def __init__(self, sequence_id: int, current: SequenceStatus, wanted: SequenceStatus) -> None:
        allowed = ", ".join(sorted(TRANSITIONS[current])) or "nothing"
        super().__init__(
            f"sequence {sequence_id} is {current} and cannot become {wanted}; "
            f"what can follow {current}: {allowed}"
        )
        self.sequence_id = sequence_id
        self.current = current
        self.wanted = wanted
