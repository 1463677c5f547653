"""A fit from the spans of many requests of vLLM.

A span shows a request and no step; who else prefilled and decoded meanwhile says what its mean
step held (`windows.py`). Prefills and decodes are explained at once, by a straight line::

    prefill of a request       = base + prompt tokens + rows that decoded + their context
    a decode, by its tokens    = base + the same, of its mean step

How many steps a decode took is known, and of a prefill it is not: where prefills take clearly
longer than the one step that decodes say, prompts were cut, and decodes alone are fitted. What
prompts cost is in them too: of those that others computed meanwhile.
"""

from collections.abc import Sequence

import numpy as np

from dataplane.simulation.fitting.document import (
    SCHEMA_VERSION,
    Fit,
    Machine,
    Overheads,
    Range,
    Residuals,
)
from dataplane.simulation.fitting.fit import FitError, measure_residuals
from dataplane.simulation.fitting.overheads import spread_of
from dataplane.simulation.fitting.regression import (
    Array,
    choose_straight,
    fit_shape,
    predict,
    predict_unseen,
)
from dataplane.simulation.fitting.vllm_requests import EngineSpan, ReadSpans, read_vllm_spans
from dataplane.simulation.fitting.windows import Window, observe_windows
from dataplane.simulation.fitting.work import Work

MIN_REQUESTS = 50
_CUT = 1.2
"""A quarter of the prefills took more than so many times the step that decodes tell of."""
_CANNOT_TELL = (
    "what steps of the same work differ by: a span holds a request's sums, never a step",
    "how the time bends with the batch: means over steps carry a straight line and no more",
    "what rereading the beginning of a prompt costs that was cut into chunks",
    "which prompt tokens were found in the prefix cache: all count as computed",
    "rows of requests without a span: aborted ones have none, sampled ones are lost, and those "
    "that ran when the spans end are not there yet",
    "tokens that one step selected together: each is taken for a step, so with speculation a "
    "step is what a token took",
    "what of the time outside of steps lies before and after them: all of it is told as arrival "
    "to admission",
    "cold start: spans of requests hold nothing of it",
)


def fit_vllm_spans(spans: Sequence[EngineSpan], machine: Machine) -> Fit:
    """Raises FitError for too few requests that can be read, and for several models."""
    read = read_vllm_spans(spans)
    if len(read.models) > 1:
        raise FitError(
            f"the spans are of {len(read.models)} models ({', '.join(sorted(read.models))}); a "
            f"fit is of one: name spans of one server"
        )
    if len(read.requests) < MIN_REQUESTS:
        raise FitError(_explain_few(read))
    windows, told = _choose(observe_windows(read.requests))
    works, seconds = _columns(windows)
    shape = choose_straight(works, seconds)
    outside = spread_of([request.waited_outside for request in read.requests])
    return Fit(
        schema_version=SCHEMA_VERSION,
        source="vllm_spans",
        engine="vllm",
        model=next(iter(read.models), None),
        model_revision=None,
        engine_config_revision=None,
        machine=machine,
        first_at_unix_ns=read.first_unix_ns,
        last_at_unix_ns=read.last_unix_ns,
        num_requests=len(read.requests),
        num_steps=0,
        num_steps_used=0,
        form=fit_shape(shape, works, seconds),
        residuals=_residuals(windows, predict_unseen(shape, works, seconds), seconds),
        noise=None,
        seen=Range(
            num_tokens=round(max(work.num_tokens for work in works)),
            num_decode_steps=round(max(work.num_decode_steps for work in works)),
            num_context_tokens=round(max(work.num_context_tokens for work in works)),
        ),
        overheads=Overheads(arrival_to_admission=outside),
        cold_start={},
        cannot_tell=(
            *_CANNOT_TELL,
            told,
            *_tell_servers(read),
            *_tell_lacking(read),
        ),
    )


def _residuals(
    windows: Sequence[Window], predicted: Array, seconds: Array
) -> tuple[Residuals, ...]:
    prefills = np.array([window.is_prefill for window in windows])
    groups = [("all", prefills | True), ("decode", ~prefills), ("prefill", prefills)]
    return tuple(
        measure_residuals(name, predicted[chosen], seconds[chosen])
        for name, chosen in groups
        if chosen.any()
    )


def _choose(windows: Sequence[Window]) -> tuple[Sequence[Window], str]:
    """Those to be fitted, and what is told of it."""
    decodes = [window for window in windows if not window.is_prefill]
    many = "how many steps a prefill took"
    if len(decodes) >= MIN_REQUESTS and (factor := _prefills_by_step(windows, decodes)) > _CUT:
        return decodes, (
            f"{many}: a quarter of them took over {factor:.1f} times a step that holds their "
            f"prompt, so prompts were cut; what they cost is taken from decodes that ran beside"
        )
    return windows, f"{many}: each is taken to be one, and prompts that were cut look dearer"


def _prefills_by_step(windows: Sequence[Window], decodes: Sequence[Window]) -> float:
    """How many times a step the longer prefills took, by what decodes say of steps."""
    prefills = [window for window in windows if window.is_prefill]
    works, seconds = _columns(decodes)
    form = fit_shape(choose_straight(works, seconds), works, seconds)
    works, seconds = _columns(prefills)
    return float(np.percentile(seconds / np.maximum(predict(form, works), 1e-12), 75))


def _columns(windows: Sequence[Window]) -> tuple[list[Work], Array]:
    seconds = np.array([window.seconds for window in windows])
    return [window.work for window in windows], seconds


def _tell_servers(read: ReadSpans) -> tuple[str, ...]:
    services = sorted({request.service for request in read.requests})
    if len(services) == 1:
        return ("whether one server wrote all spans: several under one service.name look like one",)
    return (
        f"what the {len(services)} servers differ by ({', '.join(services)}): their requests "
        f"are kept apart by service.name, and one cost is fitted to all",
    )


def _tell_lacking(read: ReadSpans) -> tuple[str, ...]:
    return tuple(
        f"rows of {count} requests whose spans lack {what}: they were passed over"
        for what, count in sorted(read.lacking.items())
    )


def _explain_few(read: ReadSpans) -> str:
    passed_over = [f"{count} lack {what}" for what, count in sorted(read.lacking.items())]
    if read.num_others:
        passed_over.append(f"{read.num_others} are of something else")
    told = f" ({'; '.join(passed_over)})" if passed_over else ""
    return (
        f"{len(read.requests)} spans of requests can be read{told}, and at least {MIN_REQUESTS} "
        f"are needed; start vLLM with --otlp-traces-endpoint, and keep all spans of some hundred "
        f"requests that overlap"
    )
