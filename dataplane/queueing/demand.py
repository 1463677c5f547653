"""What a request asks of a queue: slots, and whose tokens and bytes wait with it."""

import msgspec

from dataplane.leases.kv_reservation import KVDemand
from dataplane.routing.request import RoutingRequest


class QueueDemand(msgspec.Struct, frozen=True):
    """Of one request."""

    num_slots: int = 1
    """One for each sequence. They are granted together, once so many are free on one replica, or
    all of them where it has fewer."""
    tenant: str = ""
    weight: float = 1.0
    """The tenant's share where several of one class wait; more than 0."""
    num_tokens: int = 0
    """Of its prompt, and those that may be generated."""
    num_expected_tokens: int = 0
    """Of its prompt, and those that such requests generate: charged to its tenant where it had to
    wait, until it is known what it really took."""
    num_bytes: int = 0
    """Of memory, that its body takes while it waits."""
    deadline_at: float | None = None
    """When engine work must have begun, by the queue's clock, where that is before the deadline
    of its class."""
    routing: RoutingRequest | None = None
    """What the choice of its replica is made on; None: a slot is all that it takes."""
    kv: KVDemand | None = None
    """Blocks of KV cache that must be free there, and are reserved; None: nobody asks for any."""


ONE_SLOT = QueueDemand()
"""One sequence of nobody in particular."""
