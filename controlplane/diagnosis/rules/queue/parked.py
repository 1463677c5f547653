"""Requests that hold blocks and do not run, since they wait for something else."""

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, numbers_in, told_all, told_number
from dataplane.engine_metrics.signal import Signal


def parked(argument: Argument, now: Activity) -> bool:
    """Requests that wait for something else hold the blocks."""
    for signal in (Signal.DEFERRED, Signal.TRANSFER_QUEUE, Signal.PAUSED):
        series = now.window.find(signal)
        if series is not None and series.last.value > 0:
            argument.series(series, "they hold blocks and do not run")
            return True
    if _hold_all_themselves(argument, now) or _are_put_off(argument, now):
        return True
    fact = told_number(now.window, r"held by|parked|waiting for remote|remote kvs?|deferred")
    if fact is None or not number_of(fact):
        return False
    argument.fact(fact, "they hold blocks and do not run")
    return True


def _are_put_off(argument: Argument, now: Activity) -> bool:
    """The scheduler counts some apart that it let in once and put off, all who are in flight wait,
    and what the cache holds does not change: it is theirs."""
    put_off = now.window.find(Signal.WAITING_BY_REASON, reason="deferred")
    inside, waiting = now.in_flight, now.waiting
    if put_off is None or put_off.last.value <= 0 or inside is None or waiting is None:
        return False
    for_any = sum(each.last.value for each in now.window.all_series(Signal.WAITING_BY_REASON))
    if inside.last.value > max(waiting.last.value, for_any):
        return False
    argument.series(put_off, "put off by the scheduler, with the blocks that they hold")
    return True


def _hold_all_themselves(argument: Argument, now: Activity) -> bool:
    """The prompts that wait make up what the cache holds: each waits for blocks of the others."""
    capacity = now.capacity
    if now.kv is None or capacity is None or now.waiting is None:
        return False
    held = now.kv.last.value * capacity
    for fact in told_all(now.window, r"prompt|input|waiting|request"):
        sizes = numbers_in(fact.raw) if fact.value is None else ()
        if len(sizes) < 2 or len(sizes) != round(now.waiting.last.value):
            continue
        if abs(sum(sizes) - held) <= _MAKES_UP * held:
            total = " + ".join(f"{size:.0f}" for size in sizes)
            argument.says(
                f"{fact.key} {fact.raw}: {total} = {sum(sizes):.0f} of {capacity:.0f} tokens are "
                "held by those that wait"
            )
            return True
    return False


_MAKES_UP = 0.03
