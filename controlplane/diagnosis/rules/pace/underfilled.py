"""A limit or the way of sending keeps the batch small, and the device idle."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.pace.batch_limits import (
    at_a_constant_batch,
    behind_a_limit,
    behind_reservations,
    beside_free_memory,
)
from controlplane.diagnosis.rules.pace.batch_tails import in_tails
from controlplane.diagnosis.rules.pace.sending import by_sending
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.device import (
    BUSY_CORE,
    IDLE_BELOW,
    cpu_of,
    device_usage,
    is_power_low,
)
from controlplane.diagnosis.window import Window


def judge(window: Window) -> Verdict | None:
    """LIKELY where work waits behind a limit that the cache and the device do not need, or where
    it is sent in small portions to an idle device."""
    now = activity_of(window)
    if now.running is not None and now.running.max == 0:
        return None
    if _is_somebody_elses(now):
        return None
    usage = device_usage(window)
    is_idle = (usage is not None and usage.value < IDLE_BELOW) or (
        usage is None and is_power_low(window)
    )
    tails = in_tails(Argument(window), now)
    if tails is not None and tails.confidence is not Confidence.POSSIBLE:
        return tails
    return (
        beside_free_memory(Argument(window), now, usage)
        or behind_a_limit(Argument(window), now, usage, is_idle=is_idle)
        or behind_reservations(Argument(window), now, usage)
        or at_a_constant_batch(Argument(window), now, usage)
        or by_sending(Argument(window), now, usage, is_idle=is_idle)
        or tails
    )


def _is_somebody_elses(now: Activity) -> bool:
    """A process on the host is the bottleneck: then the batch is small because of that."""
    busy = cpu_of(
        now.window, r"engine|core|scheduler|front\w*|api|server|tokenizer|detokenizer|client"
    )
    return busy is not None and busy.value >= BUSY_CORE


UNDERFILLED = Rule(
    id="batch-underfilled",
    mechanism=Mechanism.BATCH_UNDERFILLED,
    judge=judge,
    needs=(
        "requests running, and the limit or the sender's concurrency",
        "how busy the device is",
        "KV cache usage",
    ),
    told_apart="From overload by a cache and a device with room, from a busy host by idle "
    "processes, from a healthy quiet engine by work that waits somewhere.",
    remedy="Raise the limit (seats, in-flight at the gateway) or send more at once, while tokens "
    "stay fast enough.",
    hides="A larger batch makes tokens slower, and brings preemptions where contexts are long.",
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_BURST_DRAINING,
            Mechanism.DELIVERY_FRONT_END_BOUND,
        }
    ),
)
