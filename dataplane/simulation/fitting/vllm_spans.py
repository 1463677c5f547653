"""A fit from the spans of many requests of vLLM, by what their mean steps say (`mean_steps.py`)."""

from collections.abc import Sequence

from dataplane.simulation.fitting.document import SCHEMA_VERSION, Fit, Machine, Overheads
from dataplane.simulation.fitting.fit import FitError, summarize_starts
from dataplane.simulation.fitting.mean_steps import MIN_REQUESTS, fit_mean_steps
from dataplane.simulation.fitting.overheads import spread_of
from dataplane.simulation.fitting.vllm_requests import EngineSpan, ReadSpans, read_vllm_spans
from dataplane.simulation.fitting.vllm_start import read_vllm_starts

_CANNOT_TELL = (
    "which prompt tokens were found in the prefix cache: all count as computed",
    "rows of requests without a span: aborted ones have none, sampled ones are lost, and those "
    "that ran when the spans end are not there yet",
    "tokens that one step selected together: each is taken for a step, so with speculation a "
    "step is what a token took",
    "what of the time outside of steps lies before and after them: all of it is told as arrival "
    "to admission",
)
_NO_START = "cold start: spans of requests hold nothing of it, and those of a start are not there"
_CANNOT_TELL_START = (
    "what the server took before and after its engine started: the cold start is of the engine, "
    "and what it compiled is in warm_up"
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
    found = fit_mean_steps(read.requests)
    starts = read_vllm_starts(spans)
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
        form=found.form,
        residuals=found.residuals,
        noise=None,
        seen=found.seen,
        overheads=Overheads(arrival_to_admission=spread_of(read.waited_outside)),
        cold_start=summarize_starts(starts),
        cannot_tell=(
            *found.cannot_tell,
            *_CANNOT_TELL,
            _CANNOT_TELL_START if starts else _NO_START,
            *_tell_servers(read),
            *_tell_lacking(read),
        ),
    )


def _tell_servers(read: ReadSpans) -> tuple[str, ...]:
    services = sorted({request.server for request in read.requests})
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
