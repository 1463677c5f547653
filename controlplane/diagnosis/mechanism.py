"""The mechanisms that a diagnosis can name."""

from enum import StrEnum
from typing import Self


class Mechanism(StrEnum):
    """What is going on, and what that means. A new one comes with a rule, a runbook and a test."""

    meaning: str
    """One sentence."""

    def __new__(cls, value: str, meaning: str) -> Self:
        """`value` is what programs see; `meaning` is for people."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OOM_FOREIGN_MEMORY = (
        "oom.foreign_memory",
        "Somebody else's process holds the device memory that this engine was promised.",
    )
    OOM_LOAD = "oom.load", "The weights alone do not fit."
    OOM_PROFILE = "oom.profile", "The profiling run before the KV cache is sized asks for too much."
    OOM_WARMUP = "oom.warmup", "A warm-up (sampler, kernels) after everything was placed."
    OOM_GRAPH_CAPTURE = (
        "oom.graph_capture",
        "Capturing CUDA graphs, weights and KV cache already placed.",
    )
    OOM_PREFILL_TRANSIENT = (
        "oom.prefill_transient",
        "The workspace of a large prefill chunk, with room left in the KV cache.",
    )
    OOM_DECODE_GROWTH = (
        "oom.decode_growth",
        "Contexts that grow while they decode take what is left.",
    )
    OOM_FRAGMENTATION = (
        "oom.fragmentation",
        "Enough bytes are reserved and unused, but not in one piece.",
    )
    OOM_HOST_MEMORY = (
        "oom.host_memory",
        "The host's memory (or a container's limit of it), not the device's.",
    )
    QUEUE_OVERLOAD = (
        "queue.overload",
        "More work arrives than can be done; what runs makes progress.",
    )
    QUEUE_BLOCKED = "queue.blocked", "Requests wait, there is room, and the scheduler admits none."
    QUEUE_HEAD_OF_LINE = (
        "queue.head_of_line",
        "Short requests wait behind a long one that is being worked at.",
    )
    QUEUE_RETRY_STORM = (
        "queue.retry_storm",
        "Most of what arrives are retries of what was refused or given up.",
    )
    QUEUE_NEVER_FITS = (
        "queue.never_fits",
        "The request at the head is larger than the KV cache will ever be.",
    )
    QUEUE_BURST_DRAINING = (
        "queue.burst_draining",
        "Many came at once, none follow, and the queue gets shorter.",
    )
    CACHE_THRASH = (
        "cache.thrash",
        "Running requests are preempted or retracted for room, and computed again.",
    )
    CACHE_GROWN_CONTEXTS = (
        "cache.grown_contexts",
        "Requests became longer, so that fewer fit at once; nothing is computed twice.",
    )
    CACHE_PREFIX_LOSS = (
        "cache.prefix_loss",
        "A prefix that is shared was in the cache and is not any more.",
    )
    CACHE_NOTHING_SHARED = (
        "cache.nothing_shared",
        "There is nothing to reuse: no common prefix, or one shorter than a block.",
    )
    INTERFERENCE_PREFILL = (
        "interference.prefill",
        "Decoding requests wait for the prefill of others between their tokens.",
    )
    BATCH_UNDERFILLED = (
        "batch.underfilled",
        "A limit or the way of sending keeps the batch small, and the device idle.",
    )
    ROUTING_SKEW = "routing.skew", "Some replicas or ranks have much more work than others."
    ROUTING_WRONG_WORKER = (
        "routing.wrong_worker",
        "Requests go to replicas that lack what they need: prefix, adapter, role or model.",
    )
    PHASE_MISMATCH = (
        "phase.mismatch",
        "Prefill and decode workers are in the wrong proportion for this traffic.",
    )
    TRANSFER_BOUND = (
        "transfer.bound",
        "Moving KV between workers or tiers takes longer than computing.",
    )
    COMMUNICATION_BOUND = "communication.bound", "Collectives between devices take most of a step."
    HOST_BOUND = (
        "host.bound",
        "The device waits for the host: scheduling, sampling, tokenizing, launching kernels.",
    )
    PRECISION_NOT_PAYING = (
        "precision.not_paying",
        "Lower precision was bought and does not make it faster.",
    )
    SPECULATION_NOT_PAYING = (
        "speculation.not_paying",
        "Drafts are computed and hardly ever accepted.",
    )
    STARTUP_SLOW = "startup.slow", "It comes up, later than it could, by a stage that can be named."
    CAPACITY_LATE = "capacity.late", "New replicas are ready after the load that they were for."
    RELEASE_LEAK = "release.leak", "What ended or was given up still holds seats, blocks or memory."
    ENGINE_HUNG = "engine.hung", "Requests run and no step ends."
    ENGINE_GONE = (
        "engine.gone",
        "Its process is not there any more: its port refuses connections.",
    )
    DELIVERY_SLOW_CLIENT = (
        "delivery.slow_client",
        "Tokens are there and the client does not take them.",
    )
    DELIVERY_FRONT_END_BOUND = (
        "delivery.front_end_bound",
        "Tokens are there and the server's own front end does not get them out.",
    )
    TELEMETRY_STALE = "telemetry.stale", "What is exported stands still while the truth moves."
    TELEMETRY_MISSING = "telemetry.missing", "Somebody relies on a series that is not exported."
    TELEMETRY_MISREAD = "telemetry.misread", "The figures are right and mean something else."
    LOAD_GENERATOR_BOUND = "load.generator_bound", "The client that measures is the bottleneck."
    POLICY_REJECTING = "policy.rejecting", "A limit refuses requests, as it was set to."
    TENANT_FLOOD = "tenant.flood", "One caller sends most of what arrives, and others pay for it."
    CLOCK_SKEW = "clock.skew", "Times of two machines were compared whose clocks differ."
    HEALTHY = "healthy", "Enough could be seen, and nothing is wrong."
    CANNOT_TELL = "cannot_tell", "What could be seen does not settle it."

    @property
    def runbook(self) -> str | None:
        """Its page, relative to the project's root; None for `healthy`."""
        if self is Mechanism.HEALTHY:
            return None
        return f"ops/runbooks/{self.value.replace('.', '-').replace('_', '-')}.md"


OF_FIGURES = frozenset(
    {
        Mechanism.TELEMETRY_STALE,
        Mechanism.TELEMETRY_MISSING,
        Mechanism.TELEMETRY_MISREAD,
        Mechanism.CLOCK_SKEW,
    }
)
"""What is wrong with figures, which is no part of what is wrong with the service."""
