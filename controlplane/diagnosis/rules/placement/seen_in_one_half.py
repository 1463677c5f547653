"""What a fleet of halves looks like to whoever sees one of them alone."""

from controlplane.diagnosis.mechanism import Mechanism

SEEN_IN_ONE_HALF = frozenset(
    {
        Mechanism.QUEUE_OVERLOAD,
        Mechanism.QUEUE_BLOCKED,
        Mechanism.QUEUE_HEAD_OF_LINE,
        Mechanism.CACHE_GROWN_CONTEXTS,
        Mechanism.ROUTING_SKEW,
        Mechanism.INTERFERENCE_PREFILL,
        Mechanism.BATCH_UNDERFILLED,
    }
)
"""Consequences of a wrong proportion of the halves, and of a slow link between them."""
