"""What a gateway holds for the requests that it has in flight, and what it remembers beyond them.

Each kind is held by leases that end with their request, so that without a request in flight every
count is 0, whatever has happened before: one that is not is a leak, and says of what. What is
remembered outlives requests and has a bound of its own. `find_broken` looks deeper, at what each
owner counts against what its holders have; it costs as much as there is, and is asked for when
somebody doubts.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from dataplane.gateway.gateway import Gateway


class Held(StrEnum):
    """What ends with a request."""

    REQUESTS = "requests"
    """Read, and without a record."""
    JOURNAL_ENTRIES = "journal_entries"
    """Requests that would be recorded as lost if the gateway ended now."""
    BODY_BYTES = "body_bytes"
    QUEUE_PLACES = "queue_places"
    QUEUE_TOKENS = "queue_tokens"
    QUEUE_BYTES = "queue_bytes"
    TENANT_REQUESTS = "tenant_requests"
    """That count against a tenant's max_concurrent."""
    PROMPT_TOKENS = "prompt_tokens"
    """That count against max_prompt_tokens_in_flight."""
    SLOTS = "slots"
    KV_RESERVATIONS = "kv_reservations"
    KV_BLOCKS = "kv_blocks"
    """That those reserve."""
    SHARES_OF_TIME = "shares_of_time"
    """Sequences among which the time of replicas is shared."""
    TOKENS_AHEAD = "tokens_ahead"
    """What routing counts as work to come."""
    UNSEEN_FIRST_TOKENS = "unseen_first_tokens"
    """Requests whose first token ejection waits for."""


class Remembered(StrEnum):
    """What outlives a request."""

    ROUTING = "routing"
    """Blocks of prompts that replicas were sent, and replicas that sessions were sent to."""
    UNANSWERED_BODIES = "unanswered_bodies"
    """By which a retry is recognised."""
    TENANTS = "tenants"
    """That used something in the last two minutes."""
    QUEUE = "queue"
    """Deadlines of those that left the queue, and classes of those that are charged."""


def read_held(gateway: Gateway) -> Mapping[str, int]:
    """All of one moment."""
    fleet = gateway.fleet
    queues, admissions = list(fleet.queues()), list(fleet.admissions())
    return {
        Held.REQUESTS: len(gateway.registry),
        Held.JOURNAL_ENTRIES: len(gateway.journal),
        Held.BODY_BYTES: gateway.bodies.num_bytes,
        Held.QUEUE_PLACES: sum(queue.num_waiting for queue in queues),
        Held.QUEUE_TOKENS: sum(queue.num_waiting_tokens for queue in queues),
        Held.QUEUE_BYTES: sum(queue.num_waiting_bytes for queue in queues),
        Held.TENANT_REQUESTS: sum(
            sum(admission.use.in_flight_by_tenant().values()) for admission in admissions
        ),
        Held.PROMPT_TOKENS: sum(admission.prompt_tokens.num_tokens for admission in admissions),
        Held.SLOTS: sum(queue.num_held for queue in queues),
        Held.KV_RESERVATIONS: sum(queue.kv.num_leases for queue in queues),
        Held.KV_BLOCKS: sum(sum(queue.kv.reserved_by_replica().values()) for queue in queues),
        Held.SHARES_OF_TIME: fleet.shared_time.num_sequences,
        Held.TOKENS_AHEAD: sum(queue.num_tokens_ahead for queue in queues),
        Held.UNSEEN_FIRST_TOKENS: sum(queue.router.ejections.num_waiting for queue in queues),
    }


def read_remembered(gateway: Gateway) -> Mapping[str, int]:
    """All of one moment."""
    queues, admissions = list(gateway.fleet.queues()), list(gateway.fleet.admissions())
    return {
        Remembered.ROUTING: sum(queue.router.num_remembered for queue in queues),
        Remembered.UNANSWERED_BODIES: sum(each.retries.num_remembered for each in admissions),
        Remembered.TENANTS: sum(each.use.num_remembered for each in admissions),
        Remembered.QUEUE: sum(queue.num_remembered for queue in queues),
    }


def find_broken(gateway: Gateway) -> list[str]:
    """What any owner of a lease counts otherwise than its holders do, in words."""
    fleet = gateway.fleet
    checks: Iterable[Callable[[], None]] = (
        *(queue.check_integrity for queue in fleet.queues()),
        *(queue.router.index.check_integrity for queue in fleet.queues()),
        *(admission.check_integrity for admission in fleet.admissions()),
        fleet.shared_time.check_integrity,
        gateway.registry.counts().check_integrity,
    )
    return [why for check in checks if (why := _why_broken(check)) is not None]


def _why_broken(check: Callable[[], None]) -> str | None:
    try:
        check()
    except AssertionError as error:
        return str(error)
    return None
