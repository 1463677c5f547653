"""A coarse fit from saved scrapes of vLLM's `/metrics`, taken before, during and after traffic.

A scrape shows sums, never a step. From each scrape to the next they carry the mean step, and many
of them, at different loads, what its parts cost::

    mean time between tokens   = base + prompt tokens + rows that decoded, of the mean step

Two scrapes alone carry a line over the tokens of a step, prompt and decode together::

    mean time between tokens   = base + per_token * mean tokens of a step
    mean time of a prefill     = base + per_token * (mean computed prompt + mean decode rows)

which is right where prompts are whole and alone in their steps. Everything else stays unknown, and
the fit says what.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.vllm import VLLM
from dataplane.simulation.fitting.document import (
    SCHEMA_VERSION,
    Fit,
    Machine,
    Overheads,
    Range,
    Residuals,
    Spread,
    StepForm,
    TokensKnot,
)
from dataplane.simulation.fitting.fit import FitError
from dataplane.simulation.fitting.regression import (
    choose_straight,
    fit_shape,
    least_squares,
    predict_unseen,
)
from dataplane.simulation.fitting.residuals import measure_residuals
from dataplane.simulation.fitting.vllm_scrapes import (
    BETWEEN_TOKENS,
    Change,
    Interval,
    Scrape,
    change_over,
    interval_between,
    read_scrape,
    split_at_restarts,
)
from dataplane.simulation.fitting.work import Work

MIN_INTERVALS = 12
_MIN_STEPS = 5
"""An interval of fewer says little."""
_CROWDED = 2.0
"""Rows that decode in the mean step, and hardly ever none."""
_PREFILL = VLLM.names_of(Signal.PREFILL_TIME)
_QUEUE = VLLM.names_of(Signal.QUEUE_TIME)
_FIRST_TOKEN = VLLM.names_of(Signal.TTFT)
_PROMPTS = (*VLLM.names_of(Signal.COMPUTED_LENGTH), *VLLM.names_of(Signal.PROMPT_LENGTH))
_CANNOT_TELL = (
    "what steps of the same work differ by: a scrape shows sums, so there is no noise",
    "how the time bends with the batch: means over steps carry a straight line and no more",
    "what context, rereading and attention cost: their tokens are not exported by step",
    "cold start: vLLM exports nothing of its start",
)
_CANNOT_TELL_MANY = (
    "steps in which nobody decoded: their prompts count among those beside which others did, so "
    "at light load prompts look cheaper"
)
_CANNOT_TELL_TWO = (
    "how far off any step is: two scrapes are explained by whatever goes through both",
    "what prompt tokens and decode steps cost apart: both count as tokens of a step. Scrapes at "
    f"regular times tell, {MIN_INTERVALS + 1} or more, at different loads",
    "how many steps a prefill took, and who shared them: each is taken to be one of its own, so "
    "under load prompts look dearer",
)


@dataclass(frozen=True, slots=True)
class _Found:
    form: StepForm
    residuals: tuple[Residuals, ...]
    cannot_tell: tuple[str, ...]


def fit_vllm(paths: Sequence[Path], machine: Machine) -> Fit:
    """Of two scrapes or more, in order of time.

    Raises FitError for scrapes that cannot be read, are not vLLM's, or hold no traffic.
    """
    scrapes = [read_scrape(path) for path in paths]
    stretches = split_at_restarts(scrapes)
    num_alone = len(scrapes) - sum(map(len, stretches))
    return fit_stretches(stretches, machine, num_restarts=len(stretches) - 1 + num_alone)


def fit_stretches(
    stretches: Sequence[Sequence[Scrape]], machine: Machine, num_restarts: int = 0
) -> Fit:
    """Of stretches of scrapes; what lies between two of them is not looked at. Raises FitError."""
    model = _model_of(stretches)
    intervals = [
        interval_between(first, last) for each in stretches for first, last in pairwise(each)
    ]
    busy = [each for each in intervals if _is_busy(each)]
    found = _fit_intervals(busy) if len(busy) >= MIN_INTERVALS else _fit_two(stretches)
    outside = _outside(stretches)
    scrapes = [scrape for stretch in stretches for scrape in stretch]
    return Fit(
        schema_version=SCHEMA_VERSION,
        source="vllm_metrics",
        engine="vllm",
        model=model,
        model_revision=None,
        engine_config_revision=None,
        machine=machine,
        first_at_unix_ns=None,
        last_at_unix_ns=None,
        num_requests=round(change_over(_PROMPTS, stretches).count),
        num_steps=round(sum(each.num_steps for each in intervals)),
        num_steps_used=0,
        form=found.form,
        residuals=found.residuals,
        noise=None,
        seen=Range(
            num_tokens=scrapes[-1].most_tokens,
            num_decode_steps=round(max(scrape.num_running for scrape in scrapes)) or None,
            num_context_tokens=None,
        ),
        overheads=Overheads(arrival_to_admission=outside),
        cold_start={},
        cannot_tell=(
            *found.cannot_tell,
            *_CANNOT_TELL,
            *_tell_outside(outside),
            *_tell_restarts(num_restarts),
        ),
    )


def _is_busy(interval: Interval) -> bool:
    return interval.num_steps >= _MIN_STEPS and interval.between_tokens.count >= _MIN_STEPS


def _fit_intervals(intervals: Sequence[Interval]) -> _Found:
    """By the mean step of each. A step in which nobody decodes is in no time between tokens, and
    yet in the mean step; where others always do there are none."""
    crowded = [each for each in intervals if each.decode_rows >= _CROWDED]
    if len(crowded) >= MIN_INTERVALS:
        intervals = crowded
    works = [Work(each.prompt_tokens, each.decode_rows, 0.0, 0.0, 0.0) for each in intervals]
    seconds = np.array([each.between_tokens.mean for each in intervals])
    counts = np.array([each.between_tokens.count for each in intervals])
    shape = choose_straight(works, seconds)
    unseen = predict_unseen(shape, works, seconds, counts)
    return _Found(
        form=fit_shape(shape, works, seconds, counts),
        residuals=(measure_residuals("means", unseen, seconds),),
        cannot_tell=(_CANNOT_TELL_MANY,),
    )


def _fit_two(stretches: Sequence[Sequence[Scrape]]) -> _Found:
    """By what the first and the last of each differ by."""
    whole = [interval_between(each[0], each[-1]) for each in stretches]
    num_steps = sum(each.num_steps for each in whole)
    num_computed = sum(each.num_prompt_tokens for each in whole)
    between, prompts, prefill = (
        change_over(names, stretches) for names in (BETWEEN_TOKENS, _PROMPTS, _PREFILL)
    )
    if min(num_steps, between.count, prompts.count, prefill.count) <= 0:
        raise FitError(
            f"{stretches[-1][-1].place}: its series took in nothing since "
            f"{stretches[0][0].place}; scrape before and after traffic, some hundred requests at "
            f"least"
        )
    decode_rows = between.count / num_steps
    base, per_token = _solve(
        (
            (num_computed / num_steps + decode_rows, between.mean),
            (prompts.mean + decode_rows, prefill.mean),
        )
    )
    form = StepForm(
        knots=(
            TokensKnot(num_tokens=0, seconds=base),
            TokensKnot(num_tokens=1, seconds=base + per_token),
        )
    )
    return _Found(form, (), (*_CANNOT_TELL_TWO, *_tell_clipped(base, per_token)))


def _solve(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Base and seconds per token, neither below 0, with the least relative error."""
    tokens = np.array([pair[0] for pair in pairs])
    seconds = np.array([pair[1] for pair in pairs])
    columns = np.column_stack([np.ones_like(tokens), tokens]) / seconds[:, None]
    base, per_token = least_squares(columns, np.ones_like(seconds))
    return float(base), float(per_token)


def _outside(stretches: Sequence[Sequence[Scrape]]) -> Spread | None:
    """The mean of what is neither queue nor prefill in the time to the first token.

    An engine takes requests in between two steps: half a step is no time outside of them.
    """
    try:
        first_token, queue, prefill, between = (
            change_over(names, stretches)
            for names in (_FIRST_TOKEN, _QUEUE, _PREFILL, BETWEEN_TOKENS)
        )
    except FitError:
        return None
    if not _are_of_the_same(first_token, queue, prefill):
        return None
    half_a_step = between.mean / 2 if between.count else 0.0
    mean = max(0.0, first_token.mean - queue.mean - prefill.mean - half_a_step)
    return Spread(median=mean, p95=mean, num_samples=round(first_token.count))


def _are_of_the_same(*changes: Change) -> bool:
    """Of requests that began and ended between the scrapes, all of them or nearly."""
    counts = [change.count for change in changes]
    return min(counts) > 0.98 * max(counts) > 0


def _model_of(stretches: Sequence[Sequence[Scrape]]) -> str | None:
    scrapes = [scrape for stretch in stretches for scrape in stretch]
    models = sorted(frozenset().union(*(scrape.models for scrape in scrapes)))
    if len(models) > 1:
        raise FitError(
            f"{scrapes[-1].place} is of {len(models)} models ({', '.join(models)}); a fit is of "
            f"one: scrape one server"
        )
    return models[0] if models else None


def _tell_outside(outside: Spread | None) -> tuple[str, ...]:
    if outside is None:
        return ("time before and after the engine's steps",)
    return (
        "what requests differ by in the time outside of steps: its mean is told as arrival to "
        "admission, less half a step, for which a request waits at a busy engine",
    )


def _tell_restarts(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"what ran where the counters fell: {count} intervals were left out, in which the server "
        f"restarted",
    )


def _tell_clipped(base: float, per_token: float) -> tuple[str, ...]:
    named = {"what every step takes": base, "what a token adds": per_token}
    return tuple(
        f"{what}: no line with both parts above 0 goes through the two means, so it is 0 here"
        for what, seconds in named.items()
        if seconds == 0
    )
