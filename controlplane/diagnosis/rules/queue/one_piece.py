"""A queue behind a prompt that is computed in one piece: all counters stand until it is done."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.queue.stuck import LEAST_SECONDS
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import stretch_while
from controlplane.diagnosis.views.long_prefill import is_in_one_piece, longest_prefill
from dataplane.engine_metrics.signal import Signal

LENGTHS = "prompt lengths: the longest, and those that wait"
_PROGRESS = "progress of the prompt in the engine's log or its slots"
_CUT = "whether prompts are cut into chunks"
_JUST_AFTER = 0.001
_MOST_RUN = 2
"""In the batch: of a prompt that is computed, and perhaps of one that waits for its next token."""


def may_hide_a_prompt(argument: Argument, now: Activity, seconds: float) -> bool:
    """Whether what stands for `seconds` may be one prompt that is computed. Asks what tells."""
    if seconds >= longest_prefill(now):
        return False
    argument.against(
        "queue.head_of_line: one long prompt looks the same, where it is computed in one piece"
    )
    argument.need(LENGTHS, _PROGRESS)
    if is_in_one_piece(now) is None:
        argument.need(_CUT)
    return True


def behind_one_piece(argument: Argument, now: Activity, *, is_long: bool) -> Verdict | None:
    """LIKELY where the prompt is known to be long enough, and not to be cut. None where something
    moves, or nothing is computed."""
    waiting = stretch_while(now.backlog, lambda value: value > 0)
    if waiting is None or now.running is None or now.running.last.value > _MOST_RUN:
        return None
    start = _still_since(now, waiting)
    seconds = now.window.end - start
    if seconds < LEAST_SECONDS or seconds >= longest_prefill(now) or _is_reported(now):
        return None
    if now.moves(start + _JUST_AFTER, now.window.end) is not False:
        return None
    for signal in (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS):
        argument.series(now.window.find(signal), "nothing is counted before the prompt is done")
    argument.against(
        f"engine.hung: it would be, if it stands so for {number(round(longest_prefill(now)))} s"
    )
    if is_long and is_in_one_piece(now):
        return argument.verdict(Confidence.LIKELY, detail="it is computed in one piece")
    argument.need(*(() if is_long else (LENGTHS,)), _PROGRESS)
    if is_in_one_piece(now) is None:
        argument.need(_CUT)
    return argument.verdict(Confidence.POSSIBLE)


def _still_since(now: Activity, waiting: Series) -> float:
    """Since when requests wait and no token comes."""
    still = stretch_while(now.decode, lambda value: value == 0)
    return waiting.first.at if still is None else max(waiting.first.at, still.first.at)


def _is_reported(now: Activity) -> bool:
    """The engine itself says that it makes no progress."""
    return bool(now.window.events_of(LogKind.NO_PROGRESS))
