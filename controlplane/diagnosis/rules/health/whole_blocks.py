"""One prompt sent again, of which every block that can be found is found.

Blocks are found whole, and the last token of a prompt is computed anew, since its output is asked
for: of N tokens in blocks of B at most floor((N - 1) / B) blocks are found. A prompt that is an
exact number of blocks long therefore misses its last one each time, and that is no fault.
"""

import math

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.shared import block_of
from controlplane.diagnosis.views.told import number_of, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_PROMPT = r"^(?=.*\b(prompt|input)s?\b)(?=.*\b(tokens?|len|length)\b)"
_NOT_ONE = r"mean|average|avg|p50|median|cached|hit|total|max|limit|per s\b|longest|new|without"


def misses_no_whole_block(argument: Argument, now: Activity) -> bool:
    """What looks like a poor hit rate is all that can be found, and nobody waits."""
    waits = now.backlog is not None and now.backlog.last.value > 0
    if waits or not _finds_every_whole_block(argument, now.window):
        return False
    argument.series(now.preemptions)
    argument.against("cache.prefix_loss, cache.thrash: no block that was kept is missed")
    return True


def _finds_every_whole_block(argument: Argument, window: Window) -> bool:
    """Between the readings of the counters, to the token; a look-up that missed anything, or a
    prompt that was recomputed, does not fit."""
    asked, found = window.find(Signal.PREFIX_QUERIES), window.find(Signal.PREFIX_HITS)
    told, block = told_number(window, _PROMPT, without=_NOT_ONE), block_of(window)
    tokens = number_of(told)
    if asked is None or found is None or block is None or told is None or not tokens:
        return False
    looked_up, hits = asked.increase, found.increase
    if not looked_up or not hits or looked_up % tokens:
        return False
    passes, most = looked_up / tokens, math.floor((tokens - 1) / block.value)
    if hits != passes * most * block.value:
        return False
    argument.series(asked)
    argument.series(found)
    argument.fact(told, block.says)
    argument.says(
        f"{number(hits)} of {number(looked_up)} = {number(passes)} x {number(most)} blocks of "
        f"{number(block.value)}: the last token is computed anew, so that no more can be found"
    )
    return True
