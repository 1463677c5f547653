"""release.leak: seats, blocks or memory are held by what nobody waits for."""

from controlplane.diagnosis.citing import moved, number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.looks import look_of, surest_of
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.held_blocks import (
    held_beyond_contexts,
    held_blocks,
    held_until_released,
    held_whenever_idle,
)
from controlplane.diagnosis.rules.life.held_by_ended import held_by_ended
from controlplane.diagnosis.rules.life.held_counts import held_beyond_wanted, told_free, told_held
from controlplane.diagnosis.rules.life.held_memory import grown_memory
from controlplane.diagnosis.rules.life.held_seats import LEAST_SECONDS, held_seats
from controlplane.diagnosis.rules.life.held_tokens import (
    held_beyond_the_running,
    held_to_the_token,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.truth import Truth
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


def _said_by_engine(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Its own check of the pool, our count of what was not released, or output for nobody."""
    window = now.window
    failed = window.events_of(LogKind.MEMORY_LEAK)
    leaked = window.find(Signal.LEAKED)
    orphans = window.events_of(LogKind.OUTPUT_WITHOUT_OWNER)
    if orphans:
        names = [event.words.get("request_id", "") for event in orphans]
        argument.says(
            f"{len(orphans)} lines of output for requests that nobody has any more "
            f"({', '.join(dict.fromkeys(filter(None, names)))}): {orphans[-1].line.strip()[:160]}"
        )
    if _are_zombies(orphans):
        return Confidence.CERTAIN
    if failed and _fails_the_check(argument, failed):
        return Confidence.CERTAIN
    if leaked is not None and (leaked.increase or 0) > 0:
        argument.says(f"{moved(leaked)}: not released within the bound")
        return Confidence.CERTAIN
    return None


def _fails_the_check(argument: Argument, failed: tuple[LogEvent, ...]) -> bool:
    """Of what the pool has, some is neither free nor kept. Where more is free than there is, blocks
    were given back twice: an engine that counts wrongly, and nothing is held."""
    counted = [event for event in failed if "total" in event.fields]
    last = counted[-1] if counted else failed[-1]
    held = last.fields.get("total", 0.0) - sum(
        last.fields.get(name, 0.0) for name in ("available", "evictable", "protected")
    )
    if counted and held < 0:
        argument.against(f"more is free than there is: {last.line.strip()[:200]}")
        return False
    argument.says(f"the engine's check of its own pool fails: {last.line.strip()[:200]}")
    if counted and held > 0:
        argument.says(f"{number(held)} of {number(last.fields['total'])} are held for nobody")
    if last is not failed[-1]:
        argument.says(failed[-1].line.strip()[:200])
    return True


def _are_zombies(orphans: tuple[LogEvent, ...]) -> bool:
    """The same request again, long after its caller left: one line may be of the last step."""
    by_request: dict[str, list[float]] = {}
    for event in orphans:
        if event.at is not None and event.words.get("request_id"):
            by_request.setdefault(event.words["request_id"], []).append(event.at)
    return any(moments[-1] - moments[0] >= LEAST_SECONDS for moments in by_request.values())


def _weigh(argument: Argument, now: Activity) -> None:
    argument.against("telemetry.stale: what the engine shows moves, or was asked after a step")
    argument.against("engine.hung: nobody waits for what it holds")
    if now.waiting is not None and now.waiting.last.value == 0:
        argument.against(f"queue.overload: {now.waiting.origin.name} {now.waiting.last.raw}")


_SIDES = (
    (_said_by_engine, "the engine's own check"),
    (held_seats, "seats"),
    (held_blocks, "KV blocks"),
    (held_until_released, "KV blocks"),
    (held_whenever_idle, "KV blocks"),
    (held_beyond_contexts, "KV blocks"),
    (held_beyond_the_running, "KV blocks"),
    (held_to_the_token, "KV blocks"),
    (held_by_ended, "KV blocks"),
    (told_held, "what is counted as held"),
    (held_beyond_wanted, "what is counted as held"),
    (told_free, "blocks"),
)
"""What is held, each seen in its own way; memory that grows says less than any of them."""


def _grown(window: Window) -> Verdict | None:
    return grown_memory(activity_of(window))


LEAK = Rule(
    id="release-leak",
    mechanism=Mechanism.RELEASE_LEAK,
    judge=surest_of(*(look_of(find, what, _weigh) for find, what in _SIDES), _grown),
    needs=(
        "requests running over time",
        "requests in flight at the gateway",
        "KV cache usage while nothing runs",
    ),
    told_apart=(
        "From telemetry.stale by tokens or steps that go on; from engine.hung by nobody waiting; "
        "from a filled prefix cache by blocks that count as held by requests."
    ),
    remedy=(
        "An abort has to reach the scheduler and the transfer (a build with the fix); restart the "
        "replica for now, since aborting once more does nothing."
    ),
    hides=(
        "A restart frees what was held and with it the proof of which requests held it; a timeout "
        "for every request hides the leak and cuts long answers."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_BLOCKED,
            Mechanism.CACHE_THRASH,
            Mechanism.CACHE_GROWN_CONTEXTS,
            Mechanism.BATCH_UNDERFILLED,
            # What is held for nobody stands still, and the gauge that says so is right.
            Mechanism.TELEMETRY_STALE,
        }
    ),
)
