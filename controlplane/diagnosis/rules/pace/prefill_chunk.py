"""What one chunk of prefill takes, and what it is told apart from."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.prompts import longest_prompt
from controlplane.diagnosis.views.told import number_of, told_number
from controlplane.diagnosis.words.limits import PREFILL_CHUNK
from controlplane.diagnosis.words.speeds import PREFILL_A_SECOND


def cite_chunk(argument: Argument, now: Activity) -> None:
    """How long one step with a full chunk takes."""
    budget = told_number(
        now.window,
        PREFILL_CHUNK,
    )
    longest = longest_prompt(now.window)
    if longest is not None:
        argument.says(f"prompts: {longest.says}")
    chunk = number_of(budget)
    if budget is None or not chunk:
        return
    told_rate = told_number(now.window, PREFILL_A_SECOND)
    rate = number_of(told_rate) or (now.prefill.max if now.prefill is not None else None)
    if not rate:
        argument.fact(budget)
        return
    argument.fact(budget, f"one chunk at {number(round(rate))} tokens/s is {chunk / rate:.2g} s")


def weigh(argument: Argument, now: Activity) -> None:
    if now.has_room:
        argument.against("cache.thrash: the cache has room, nobody is thrown out")
    if now.waiting is not None and now.waiting.last.value == 0:
        argument.against("queue.overload, queue.head_of_line: nothing waits")
    argument.against("engine.hung: prefill goes on")
