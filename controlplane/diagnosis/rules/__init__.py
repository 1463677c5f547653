"""The rules that Pilothouse brings, in the order of their answers. Others come by the hook
`pilothouse_diagnosis_rules`.

A room is a folder of rules about one kind of mechanism. A rule counts once it stands here. Where
two are equally sure, the one that stands earlier is the answer: so the surer to be right, the
earlier, of the rules in a room as of the rooms.
"""

from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.cache.grown_contexts import GROWN_CONTEXTS
from controlplane.diagnosis.rules.cache.nothing_shared import NOTHING_SHARED
from controlplane.diagnosis.rules.cache.prefix_loss import PREFIX_LOSS
from controlplane.diagnosis.rules.cache.thrash import THRASH
from controlplane.diagnosis.rules.callers.flood import FLOOD
from controlplane.diagnosis.rules.callers.generator import GENERATOR_BOUND
from controlplane.diagnosis.rules.callers.rejecting import REJECTING
from controlplane.diagnosis.rules.delivery.front_end_bound import FRONT_END_BOUND
from controlplane.diagnosis.rules.delivery.slow_client import SLOW_CLIENT
from controlplane.diagnosis.rules.delivery.undelivered import UNDELIVERED
from controlplane.diagnosis.rules.healthy import HEALTHY
from controlplane.diagnosis.rules.life.gone import GONE
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.rules.life.late import CAPACITY_LATE
from controlplane.diagnosis.rules.life.leak import LEAK
from controlplane.diagnosis.rules.life.stalled import STALLED
from controlplane.diagnosis.rules.life.startup import STARTUP_SLOW
from controlplane.diagnosis.rules.memory.capture import GRAPH_CAPTURE
from controlplane.diagnosis.rules.memory.decode import DECODE_GROWTH
from controlplane.diagnosis.rules.memory.foreign import FOREIGN_MEMORY
from controlplane.diagnosis.rules.memory.fragmentation import FRAGMENTATION
from controlplane.diagnosis.rules.memory.host import HOST_MEMORY
from controlplane.diagnosis.rules.memory.load import LOAD
from controlplane.diagnosis.rules.memory.outlived import weighed
from controlplane.diagnosis.rules.memory.prefill import PREFILL_TRANSIENT
from controlplane.diagnosis.rules.memory.profile import PROFILE
from controlplane.diagnosis.rules.memory.warmup import WARMUP
from controlplane.diagnosis.rules.pace.communication_bound import COMMUNICATION_BOUND
from controlplane.diagnosis.rules.pace.host_bound import HOST_BOUND
from controlplane.diagnosis.rules.pace.interference import INTERFERENCE
from controlplane.diagnosis.rules.pace.precision import PRECISION
from controlplane.diagnosis.rules.pace.speculation import SPECULATION
from controlplane.diagnosis.rules.pace.underfilled import UNDERFILLED
from controlplane.diagnosis.rules.placement.full_decoders import FULL_DECODERS
from controlplane.diagnosis.rules.placement.idle_decoders import IDLE_DECODERS
from controlplane.diagnosis.rules.placement.phase_mismatch import PHASE_MISMATCH
from controlplane.diagnosis.rules.placement.skew import SKEW
from controlplane.diagnosis.rules.placement.transfer_bound import TRANSFER_BOUND
from controlplane.diagnosis.rules.placement.uneven import UNEVEN
from controlplane.diagnosis.rules.placement.wrong_worker import WRONG_WORKER
from controlplane.diagnosis.rules.queue.blocked import BLOCKED
from controlplane.diagnosis.rules.queue.burst_draining import BURST_DRAINING
from controlplane.diagnosis.rules.queue.head_of_line import HEAD_OF_LINE
from controlplane.diagnosis.rules.queue.multiplied_arrivals import MULTIPLIED_ARRIVALS
from controlplane.diagnosis.rules.queue.never_fits import NEVER_FITS
from controlplane.diagnosis.rules.queue.overload import OVERLOAD
from controlplane.diagnosis.rules.queue.retry_storm import RETRY_STORM
from controlplane.diagnosis.rules.telemetry.impossible_figures import IMPOSSIBLE_FIGURES
from controlplane.diagnosis.rules.telemetry.misread import MISREAD
from controlplane.diagnosis.rules.telemetry.missing import MISSING
from controlplane.diagnosis.rules.telemetry.skew import SKEW as CLOCK_SKEW
from controlplane.diagnosis.rules.telemetry.stale import STALE
from controlplane.diagnosis.rules.telemetry.still_page import STILL_PAGE
from controlplane.diagnosis.rules.telemetry.stuck_gauges import STUCK_GAUGES
from controlplane.diagnosis.rules.telemetry.unanswered import NO_PAGE, SILENT
from controlplane.diagnosis.rules.telemetry.vanished import VANISHED

MEMORY: tuple[Rule, ...] = tuple(
    map(
        weighed,
        (
            FOREIGN_MEMORY,
            HOST_MEMORY,
            FRAGMENTATION,
            LOAD,
            PROFILE,
            GRAPH_CAPTURE,
            WARMUP,
            PREFILL_TRANSIENT,
            DECODE_GROWTH,
        ),
    )
)
"""First, since engines write down that memory ran out, with the figures of it."""

COMPARED: tuple[Rule, ...] = (
    STILL_PAGE,
    STUCK_GAUGES,
    VANISHED,
    IMPOSSIBLE_FIGURES,
    IDLE_DECODERS,
    FULL_DECODERS,
    MULTIPLIED_ARRIVALS,
    UNEVEN,
    UNDELIVERED,
)
"""Of telemetry, placement, queue and delivery, and before all rules of these: they hold replicas
and the gateway side by side, or a page beside what it was. None of them alone shows what is wrong,
and each looks like the trouble of a later rule."""

LIFE: tuple[Rule, ...] = (GONE, HUNG, STALLED, LEAK, CAPACITY_LATE, STARTUP_SLOW)
"""What is gone, stands still, holds on or is not there yet."""

TELEMETRY: tuple[Rule, ...] = (STALE, MISSING, CLOCK_SKEW, MISREAD, SILENT, NO_PAGE)
"""Before the rules that read figures as they are told."""

CALLERS: tuple[Rule, ...] = (FLOOD, GENERATOR_BOUND, REJECTING)
"""Before queues: who sends, and how, is why they are as long as they are."""

QUEUE: tuple[Rule, ...] = (
    NEVER_FITS,
    BLOCKED,
    RETRY_STORM,
    HEAD_OF_LINE,
    BURST_DRAINING,
    OVERLOAD,
)
"""From one request that cannot run to too many that can."""

CACHE: tuple[Rule, ...] = (THRASH, GROWN_CONTEXTS, PREFIX_LOSS, NOTHING_SHARED)
"""What the KV cache loses, or never had."""

PLACEMENT: tuple[Rule, ...] = (WRONG_WORKER, SKEW, TRANSFER_BOUND, PHASE_MISMATCH)
"""By what is told of places; by replicas side by side it is `COMPARED`."""

DELIVERY: tuple[Rule, ...] = (FRONT_END_BOUND, SLOW_CLIENT)
"""What happens to tokens after they were made."""

PACE: tuple[Rule, ...] = (
    SPECULATION,
    PRECISION,
    INTERFERENCE,
    COMMUNICATION_BOUND,
    HOST_BOUND,
    UNDERFILLED,
)
"""Last of the troubles: steps are slow, and nothing before says why."""

BUILT_IN_RULES: tuple[Rule, ...] = (
    *MEMORY,
    *COMPARED,
    *LIFE,
    *TELEMETRY,
    *CALLERS,
    *QUEUE,
    *CACHE,
    *PLACEMENT,
    *DELIVERY,
    *PACE,
    HEALTHY,
)
"""Where two are equally sure, the earlier one is the answer; health is what is left at the end."""
