"""engine.hung: requests are in the batch, somebody waits for them, and no step ends."""

from controlplane.diagnosis.looks import surest_of
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.given_up import judge_given_up
from controlplane.diagnosis.rules.life.hung_engine import judge_engine
from controlplane.diagnosis.rules.life.hung_replica import judge_replica
from controlplane.diagnosis.rules.life.silent_engine import judge_silent
from controlplane.diagnosis.rules.life.stood_still import judge_pauses
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.standstill import standstill_of
from controlplane.diagnosis.window import Window

_look = surest_of(judge_replica, judge_silent, judge_engine, judge_given_up, judge_pauses)


def _judge(window: Window) -> Verdict | None:
    """Nothing where answers come out of what seems to stand still: then its page does."""
    found = standstill_of(window)
    return None if found is not None and found.is_working else _look(window)


HUNG = Rule(
    id="engine-hung",
    mechanism=Mechanism.ENGINE_HUNG,
    judge=_judge,
    needs=(
        "requests running over time",
        "generated tokens over time",
        "requests in flight at the gateway or a one-token probe",
    ),
    told_apart=(
        "From telemetry.stale by a request that is in flight or a probe that gets no answer; from "
        "queue.blocked by requests in the batch; from a long prefill by prompt tokens that move; "
        "from startup.slow by an engine that had served."
    ),
    remedy=(
        "Fence the replica, keep stacks and logs, restart it; probe the path of the data with one "
        "token and not /health alone."
    ),
    hides=(
        "A restart drops what runs and, with the processes' stacks, the only evidence of where the "
        "step stands."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_BLOCKED,
            Mechanism.COMMUNICATION_BOUND,
            Mechanism.HOST_BOUND,
            Mechanism.QUEUE_RETRY_STORM,
            # Of one replica among others.
            Mechanism.RELEASE_LEAK,
            Mechanism.ROUTING_SKEW,
            Mechanism.TELEMETRY_STALE,
        }
    ),
)
