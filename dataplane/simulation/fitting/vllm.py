"""A coarse fit from two saved scrapes of vLLM's `/metrics`, before and after some traffic.

A scrape shows sums, never a step. Two of them carry a line over the tokens of a step::

    mean time between tokens   = base + per_token * mean tokens of a step
    mean time of a prefill     = base + per_token * (mean computed prompt + mean decode rows)

Everything else stays unknown, and the fit says what.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from dataplane.simulation.fitting.document import (
    SCHEMA_VERSION,
    Fit,
    Machine,
    Overheads,
    Range,
    StepForm,
    TokensKnot,
)
from dataplane.simulation.fitting.fit import FitError
from dataplane.simulation.fitting.regression import least_squares

_BETWEEN_TOKENS = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
_PREFILL = ("vllm:request_prefill_time_seconds",)
_STEP_TOKENS = ("vllm:iteration_tokens_total",)
_PROMPTS = ("vllm:request_prefill_kv_computed_tokens", "vllm:request_prompt_tokens")
_GENERATED = ("vllm:generation_tokens_total",)
_RUNNING = ("vllm:num_requests_running",)
_CANNOT_TELL = (
    "how far off any step is: a scrape shows sums, so there are no residuals and no noise",
    "how the time bends with the batch: two means carry a straight line and no more",
    "what prompt tokens and decode steps cost apart: both count as tokens of a step",
    "what context, rereading and attention cost: their tokens are not exported by step",
    "how many steps a prefill took: each is taken to be one, so long prompts look dearer",
    "time before and after the engine's steps",
    "cold start: vLLM exports nothing of its start",
)


@dataclass(frozen=True, slots=True)
class _Scrape:
    """Values by name of the sample, added up over the engines of one model."""

    place: str
    values: dict[str, float]
    most_tokens: int | None
    """The bound of the highest bucket of step tokens that holds anything."""
    models: frozenset[str]


def fit_vllm(before: Path, after: Path, machine: Machine) -> Fit:
    """Raises FitError for scrapes that cannot be read, are not vLLM's, or are no pair."""
    first, last = _read(before), _read(after)
    model = _model_of(first, last)
    between = _Change.of(_BETWEEN_TOKENS, first, last)
    prefill = _Change.of(_PREFILL, first, last)
    steps = _Change.of(_STEP_TOKENS, first, last)
    prompts = _Change.of(_PROMPTS, first, last)
    generated = _counted(_GENERATED, first, last)
    decode_rows = max(0.0, generated - prompts.count) / steps.count
    base, per_token = _solve(
        ((steps.mean, between.mean), (prompts.mean + decode_rows, prefill.mean))
    )
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
        num_requests=round(prompts.count),
        num_steps=round(steps.count),
        num_steps_used=0,
        form=StepForm(
            knots=(
                TokensKnot(num_tokens=0, seconds=base),
                TokensKnot(num_tokens=1, seconds=base + per_token),
            )
        ),
        residuals=(),
        noise=None,
        seen=Range(
            num_tokens=last.most_tokens,
            num_decode_steps=_most_running(first, last),
            num_context_tokens=None,
        ),
        overheads=Overheads(),
        cold_start={},
        cannot_tell=(*_CANNOT_TELL, *_tell_clipped(base, per_token)),
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """What a histogram took in between the scrapes."""

    count: float
    mean: float

    @classmethod
    def of(cls, names: Sequence[str], first: _Scrape, last: _Scrape) -> "_Change":
        """Of the first of `names` that the later scrape has."""
        name = _find(names, "_count", last)
        count = _grown(f"{name}_count", first, last)
        total = _grown(f"{name}_sum", first, last)
        if count <= 0:
            raise FitError(
                f"{last.place}: {name} took in nothing since {first.place}; scrape before and "
                f"after traffic, some hundred requests at least"
            )
        return cls(count, total / count)


def _tell_clipped(base: float, per_token: float) -> tuple[str, ...]:
    named = {"what every step takes": base, "what a token adds": per_token}
    return tuple(
        f"{what}: no line with both parts above 0 goes through the two means, so it is 0 here"
        for what, seconds in named.items()
        if seconds == 0
    )


def _solve(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Base and seconds per token, neither below 0, with the least relative error."""
    tokens = np.array([pair[0] for pair in pairs])
    seconds = np.array([pair[1] for pair in pairs])
    columns = np.column_stack([np.ones_like(tokens), tokens]) / seconds[:, None]
    base, per_token = least_squares(columns, np.ones_like(seconds))
    return float(base), float(per_token)


def _read(path: Path) -> _Scrape:
    try:
        text = path.read_text(encoding="utf-8")
        families = list(text_string_to_metric_families(text))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise FitError(
            f"{path} is no scrape: {why}; save one with `curl http://<vllm>/metrics`"
        ) from error
    values: dict[str, float] = defaultdict(float)
    buckets: dict[float, float] = defaultdict(float)
    models = set()
    for sample in (sample for family in families for sample in family.samples):
        if "le" in sample.labels:
            if sample.name == f"{_STEP_TOKENS[0]}_bucket":
                buckets[float(sample.labels["le"])] += sample.value
            continue
        values[sample.name] += sample.value
        if sample.name.startswith("vllm:") and "model_name" in sample.labels:
            models.add(sample.labels["model_name"])
    return _Scrape(str(path), dict(values), _highest(buckets), frozenset(models))


def _highest(buckets: dict[float, float]) -> int | None:
    total = max(buckets.values(), default=0.0)
    reached = [bound for bound, count in buckets.items() if count >= total > 0]
    bound = min(reached, default=float("inf"))
    return None if bound == float("inf") else int(bound)


def _model_of(first: _Scrape, last: _Scrape) -> str | None:
    models = sorted(first.models | last.models)
    if len(models) > 1:
        raise FitError(
            f"{last.place} is of {len(models)} models ({', '.join(models)}); a fit is of one: "
            f"scrape one server"
        )
    return models[0] if models else None


def _find(names: Sequence[str], suffix: str, scrape: _Scrape) -> str:
    for name in names:
        if f"{name}{suffix}" in scrape.values:
            return name
    raise FitError(
        f"{scrape.place} lacks {' and '.join(names)}; scrape /metrics of a vLLM server itself, "
        f"not of something before it that drops series"
    )


def _counted(names: Sequence[str], first: _Scrape, last: _Scrape) -> float:
    return _grown(_find(names, "", last), first, last)


def _grown(name: str, first: _Scrape, last: _Scrape) -> float:
    grown = last.values.get(name, 0.0) - first.values.get(name, 0.0)
    if grown < 0:
        raise FitError(
            f"{name} fell from {first.values[name]:g} in {first.place} to {last.values[name]:g} "
            f"in {last.place}: the server restarted between them, or they are the wrong way round"
        )
    return grown


def _most_running(first: _Scrape, last: _Scrape) -> int | None:
    seen = [s.values[name] for s in (first, last) for name in _RUNNING if name in s.values]
    most = max(seen, default=0.0)
    return round(most) if most > 0 else None
