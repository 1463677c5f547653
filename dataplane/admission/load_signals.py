"""What the admission decision reads of a deployment, all of one moment."""

from collections.abc import Mapping

import msgspec

from dataplane.admission.retry_budget import RetryStanding
from dataplane.leases.prompt_tokens_in_flight import PromptShortage
from dataplane.leases.tenant_use import UseShortage
from dataplane.queueing.drain_rate import DrainReading
from dataplane.routing.first_token_time import FirstTokenReading


class QueueLoad(msgspec.Struct, kw_only=True):
    """One deployment at the moment of a decision. What no term of its policy asks about need not
    be read, and has its default."""

    num_waiting_by_class: Mapping[str, int]
    has_free_slot: bool
    """The request could start at once."""
    num_replicas: int
    """Replicas the snapshot names, connected or not."""
    is_draining: bool = False
    """The gateway is about to end."""
    num_waiting: int = 0
    num_waiting_tokens: int = 0
    """Prompt tokens, and those that may be generated."""
    num_waiting_bytes: int = 0
    """Of bodies."""
    num_before_by_class: Mapping[str, int] = {}
    """Of its own class, those that go before one more of its tenant, where its deadline asks."""
    oldest_age_by_class: Mapping[str, float] = {}
    """Seconds that the longest waiting of each class has waited."""
    is_outweighed: bool = False
    """Its queue is full, and another tenant has more waiting in its class for its weight."""
    own_drain: DrainReading | None = None
    """How fast those of its own class begin, where it has a deadline behind another class; None:
    it has not, or nobody can tell yet."""
    drain: DrainReading | None = None
    """None: it was not measured yet."""
    tenant_in_flight: int | None = None
    """Requests of the tenant that were admitted and are not over; None: nobody asks."""
    tenant_tokens: int | None = None
    """What the tenant is charged of this minute; None: nobody asks."""
    tenant_shortage: UseShortage | None = None
    """The tenant is over its limits with this request."""
    prompt_tokens_in_flight: int | None = None
    """None: nobody asks."""
    prompt_shortage: PromptShortage | None = None
    """The prompt does not fit with those in flight."""
    first_token: FirstTokenReading | None = None
    """How long first tokens take from the slot; None: nobody asks, or nobody can tell yet."""
    retry: RetryStanding | None = None
    """None: it was not tried before, as far as anybody can tell."""

    @property
    def queue_age(self) -> float:
        """Seconds that the longest waiting has waited; 0: nobody waits."""
        return max(self.oldest_age_by_class.values(), default=0.0)
