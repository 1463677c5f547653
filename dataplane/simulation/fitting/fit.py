"""From the records of requests to a fit."""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dataplane.record import RequestRecord
from dataplane.simulation.fitting.attached import ReadRecords, read_attached, shows_chunks
from dataplane.simulation.fitting.document import (
    SCHEMA_VERSION,
    Fit,
    Machine,
    Range,
    Residuals,
    Spread,
)
from dataplane.simulation.fitting.mean_steps import MIN_REQUESTS, fit_mean_steps
from dataplane.simulation.fitting.noise import measure_noise
from dataplane.simulation.fitting.overheads import measure_overheads, spread_of
from dataplane.simulation.fitting.regression import (
    Array,
    choose_shape,
    fit_form,
    predict,
    predict_unseen,
)
from dataplane.simulation.fitting.residuals import measure_residuals
from dataplane.simulation.fitting.steps import ObservedStep, ObservedSteps, observe_steps
from dataplane.simulation.fitting.work import Work, work_of_step

MIN_STEPS = 50
_NO_STARTS = ("cold start: no start of a replica was given",)
_CANNOT_TELL_ATTACHED = (
    "when the engine began with a request: its own queue is taken for a part of the prefill",
    "which prompt tokens the engine reused: all count as computed",
    "tokens that one chunk held: each token is taken for a step",
)
_ROW_RANGES = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, None))


class FitError(ValueError):
    """The records do not carry a fit; says why, and the remedy."""


def fit_records(
    records: Sequence[RequestRecord],
    machine: Machine,
    starts: Sequence[Mapping[str, float]] = (),
    deployment: str | None = None,
) -> Fit:
    """Fit all that the replicas of one deployment did.

    `records` are of all requests of a time, also of other deployments: without them nobody
    could tell that no request is missing. `starts` are seconds by stage, of starts of such
    replicas. Raises FitError for several models or configs, and for too few steps, or requests of
    an engine that shows none.
    """
    served = [r for r in records if r.replica_ids and deployment in (None, r.deployment)]
    identity = _find_identity(served)
    if not shows_chunks(served):
        return _fit_attached(records, served, identity, machine, starts)
    observed = observe_steps(records, {each for r in served for each in r.replica_ids})
    steps = observed.usable
    if len(steps) < MIN_STEPS:
        raise FitError(_explain_few(observed, len(steps)))
    overheads = measure_overheads(served, observed)
    gap = 0.0 if overheads.between_steps is None else overheads.between_steps.median
    works = [work_of_step(step) for step in steps]
    seconds = np.array([_seconds_of(step, gap) for step in steps])
    form = fit_form(works, seconds)
    arrivals = [record.arrived_at_unix_ns for record in served]
    return Fit(
        schema_version=SCHEMA_VERSION,
        source="records",
        **identity,
        machine=machine,
        first_at_unix_ns=min(arrivals),
        last_at_unix_ns=max(arrivals),
        num_requests=len(served),
        num_steps=len(observed.steps),
        num_steps_used=len(steps),
        form=form,
        residuals=_measure_residuals(steps, works, seconds),
        noise=measure_noise(
            seconds / np.maximum(predict(form, works), 1e-12),
            np.array([work.num_prompt_tokens > 0 for work in works]),
        ),
        seen=Range(
            num_tokens=round(max(work.num_tokens for work in works)),
            num_decode_steps=round(max(work.num_decode_steps for work in works)),
            num_context_tokens=round(max(work.num_context_tokens for work in works)),
        ),
        overheads=overheads,
        cold_start=summarize_starts(starts),
        cannot_tell=_tell_unknown(works, observed, starts),
    )


def _fit_attached(
    records: Sequence[RequestRecord],
    served: Sequence[RequestRecord],
    identity: Mapping[str, str | None],
    machine: Machine,
    starts: Sequence[Mapping[str, float]],
) -> Fit:
    """Of an engine that shows no step."""
    read = read_attached(served)
    num_decoded = sum(request.num_output_tokens > 1 for request in read.requests)
    if num_decoded < MIN_REQUESTS:
        raise FitError(_explain_few_attached(read, num_decoded, len(served)))
    found = fit_mean_steps(read.requests, knows_prefills=False)
    no_steps = observe_steps(records, frozenset())
    arrivals = [record.arrived_at_unix_ns for record in served]
    return Fit(
        schema_version=SCHEMA_VERSION,
        source="records",
        **identity,
        machine=machine,
        first_at_unix_ns=min(arrivals),
        last_at_unix_ns=max(arrivals),
        num_requests=len(read.requests),
        num_steps=0,
        num_steps_used=0,
        form=found.form,
        residuals=found.residuals,
        noise=None,
        seen=found.seen,
        overheads=measure_overheads(served, no_steps),
        cold_start=summarize_starts(starts),
        cannot_tell=(
            *found.cannot_tell,
            *_CANNOT_TELL_ATTACHED,
            *(_NO_STARTS if not starts else ()),
            *_tell_missing(no_steps),
            *(
                f"rows of {count} requests whose records lack {what}: they were passed over"
                for what, count in sorted(read.lacking.items())
            ),
        ),
    )


def _explain_few_attached(read: ReadRecords, num_decoded: int, num_served: int) -> str:
    num_alone = len(read.requests) - num_decoded
    by_what = dict(read.lacking) | ({"a second token": num_alone} if num_alone else {})
    lacking = "".join(f"; {count} lack {what}" for what, count in sorted(by_what.items()))
    return (
        f"the engine shows no steps, and of {num_served} requests {num_decoded} can be "
        f"used{lacking}. A fit of such an engine needs {MIN_REQUESTS}. Remedy: send more traffic, "
        f"streamed and of varied lengths and rates, and take all its records"
    )


def this_machine() -> Machine:
    """The one that runs this."""
    return Machine(name=platform.node(), processor=_processor(), num_processors=os.cpu_count() or 1)


def summarize_starts(starts: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Seconds by stage, over all starts that took the stage."""
    stages = sorted({stage for start in starts for stage in start})
    found = {
        stage: spread_of([start[stage] for start in starts if stage in start]) for stage in stages
    }
    return {stage: spread for stage, spread in found.items() if spread is not None}


def _seconds_of(step: ObservedStep, gap: float) -> float:
    """A step that came from another holds what lies between steps; give it to all of them."""
    assert step.seconds is not None  # it is usable
    return step.seconds if step.is_back_to_back else step.seconds + gap


def _find_identity(served: Sequence[RequestRecord]) -> dict[str, str | None]:
    """What all of them ran on. Raises FitError when it was not one thing."""
    identities = {(r.engine, r.model, r.model_revision, r.engine_config_revision) for r in served}
    if not identities:
        raise FitError(
            "none of the requests reached a replica, so nothing can be learned of one; take "
            "records of requests that were answered"
        )
    if len(identities) > 1:
        named = "; ".join(sorted(" ".join(str(word) for word in each) for each in identities))
        raise FitError(
            f"the requests ran on {len(identities)} different engines, models or configs, and a "
            f"fit is of one (engine, model, model revision, config revision): {named}. Select "
            f"one with --deployment, --since and --until"
        )
    keys = ("engine", "model", "model_revision", "engine_config_revision")
    return dict(zip(keys, identities.pop(), strict=True))


def _explain_few(observed: ObservedSteps, num_usable: int) -> str:
    """Why there is too little to learn from."""
    why = [f"{count} times {reason}" for reason, count in sorted(observed.blind.items())]
    lost = f" Time was blind: {', '.join(why)}." if why else ""
    missing = observed.num_missing_requests
    remedy = (
        f"{missing} requests between them are missing: take records of all requests of a time "
        f"(a gateway's spool, or a time so quiet that every full record was kept)"
        if missing
        else "send more traffic, of varied lengths and rates, and take all its records"
    )
    return (
        f"only {num_usable} steps can be used of {len(observed.steps)} seen in "
        f"{observed.num_requests} requests, and a fit needs {MIN_STEPS}.{lost} Remedy: {remedy}"
    )


def _measure_residuals(
    steps: Sequence[ObservedStep], works: Sequence[Work], seconds: Array
) -> tuple[Residuals, ...]:
    off = predict_unseen(choose_shape(works, seconds), works, seconds)
    prompts = np.array([work.num_prompt_tokens for work in works])
    decodes = np.array([work.num_decode_steps for work in works])
    rows = np.array([len(step.rows) for step in steps])
    groups = [
        ("all", rows > 0),
        ("decode", prompts == 0),
        ("prefill", decodes == 0),
        ("mixed", (prompts > 0) & (decodes > 0)),
    ]
    for least, most in _ROW_RANGES:
        name = f"{least}" if least == most else f"{least}-{most}" if most else f"{least}+"
        groups.append((f"{name} rows", (rows >= least) & (rows <= (most or np.inf))))
    return tuple(
        measure_residuals(name, off[chosen], seconds[chosen])
        for name, chosen in groups
        if chosen.any()
    )


def _tell_unknown(
    works: Sequence[Work], observed: ObservedSteps, starts: Sequence[Mapping[str, float]]
) -> tuple[str, ...]:
    unknown = []
    if not any(work.num_reread_tokens for work in works):
        unknown.append(
            "what a prefill costs that starts behind others' tokens: no prompt was continued"
        )
    if not any(work.num_prompt_tokens and work.num_decode_steps for work in works):
        unknown.append("what prompts and decodes cost each other: no step held both")
    return (*unknown, *(_NO_STARTS if not starts else ()), *_tell_missing(observed))


def _tell_missing(observed: ObservedSteps) -> tuple[str, ...]:
    """Steps that were seen are left out where somebody may be missing; mean steps cannot be."""
    if not observed.num_missing_requests:
        return ()
    what = "they were left out" if observed.steps else "they hold more than was seen"
    return (
        f"steps that {observed.num_missing_requests} requests may have taken part in whose "
        f"records are missing: {what}",
    )


def _processor() -> str:
    """Its model, where the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
