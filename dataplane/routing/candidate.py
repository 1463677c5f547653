"""One connected replica as routing sees it, and how many slots of it may be given."""

from dataclasses import dataclass

from dataplane.routing.reported_load import ReportedLoad


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """What is known of one connected replica now. Its owner (`ReplicaSlots`, `Placement`,
    `Router`) changes it in place, so that a choice over a thousand of them copies nothing;
    policies only read.

    Counts are the gateway's own unless they say otherwise, so their age is 0.
    """

    replica_id: str
    num_outstanding: int
    """Its slots that are held, one for each sequence, whichever gateway of this place gave them."""
    max_outstanding: int | None
    """None: the replica does not say and no policy does."""
    fewest_outstanding: int = 0
    """Slots of it that were held at the same time, at least, since its last report."""
    most_outstanding: int = 0
    """The same, at most."""
    num_foreign: int = 0
    """What it reports to run or queue beyond ours, while that report is new and to be trusted."""
    num_prompt_tokens_ahead: int = 0
    """Prompt tokens that it was sent and, by what is known, has to compute before its next first
    token."""
    num_output_tokens_ahead: int = 0
    """Tokens that what it holds may still generate."""
    prefill_tokens_per_second: float | None = None
    """Measured; None: nothing was computed yet, or its engine does not show it."""
    reported: ReportedLoad | None = None
    """What it last told of itself, trusted or not."""
    position: int | None = None
    """Among those with a free slot; for `ReplicaSlots` alone."""

    @property
    def is_believed(self) -> bool:
        """Nothing that it reported speaks against it."""
        return self.reported is None or self.reported.why_not is None

    @property
    def load(self) -> int:
        """Sequences that it has, whoever sent them."""
        return self.num_outstanding + self.num_foreign

    def has_room_for(self, num_slots: int) -> bool:
        """It may be given a request of so many sequences. One with more than it has slots goes to
        it alone: it would otherwise wait for ever."""
        if self.max_outstanding is None:
            return True
        num_needed = min(num_slots, self.max_outstanding)
        return 0 < num_needed <= self.max_outstanding - self.num_outstanding


def limit_slots(max_active: int | None, max_num_seqs: int | None, surplus_slots: int) -> int | None:
    """Slots that a gateway gives of one replica; None: no limit.

    The policy's `max_active` is hard. What the engine says it runs at once gets a surplus, so
    that it never idles, and a request of more sequences than that is given all of it: its engine
    has them wait.
    """
    limits = [] if max_active is None else [max_active]
    if max_num_seqs is not None:
        limits.append(max_num_seqs + surplus_slots)
    return min(limits, default=None)
