import dataclasses
import random
import re

import pytest

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit, decode_fit, encode_fit
from dataplane.simulation.fitting.fit import FitError
from dataplane.simulation.fitting.replay import ReplayedRequest
from dataplane.simulation.fitting.vllm_requests import EngineSpan
from dataplane.simulation.fitting.vllm_spans import fit_vllm_spans
from tests.dataplane.simulation.fitting.noisy_cost import NoisyCost
from tests.dataplane.simulation.fitting.simulated_records import MACHINE, OVERHEADS
from tests.dataplane.simulation.fitting.simulated_spans import CHUNKED, simulated_spans

_KNOWN = LinearCost(
    iteration=0.02, per_prompt_token=0.0002, per_decode_step=0.0008, per_context_token=0.000004
)


def _requests(count: int, rate: float, seed: int, max_prompt: int = 600) -> list[ReplayedRequest]:
    rng = random.Random(seed)
    at, requests = 0.0, []
    for _ in range(count):
        at += rng.expovariate(rate)
        requests.append(ReplayedRequest(at, rng.randint(1, max_prompt), rng.randint(1, 60)))
    return requests


@pytest.fixture(scope="module")
def spans() -> list[EngineSpan]:
    """Up to 30 rows at once."""
    return simulated_spans(_KNOWN, _requests(300, 12.0, seed=3), overheads=OVERHEADS)


@pytest.fixture(scope="module")
def fit(spans: list[EngineSpan]) -> Fit:
    return fit_vllm_spans(spans, MACHINE)


def _residual(fit: Fit, name: str) -> float:
    [found] = [each.p90 for each in fit.residuals if each.steps == name]
    return found


def _without(span: EngineSpan, *names: str) -> EngineSpan:
    kept = {name: value for name, value in span.attributes.items() if name not in names}
    return dataclasses.replace(span, attributes=kept)


def _with(span: EngineSpan, **changed: float | str | bool) -> EngineSpan:
    named = {key.replace("__", "."): value for key, value in changed.items()}
    return dataclasses.replace(span, attributes={**span.attributes, **named})


def test_known_costs_are_found_in_the_spans_of_their_requests(fit: Fit) -> None:
    assert [knot.seconds for knot in fit.form.knots] == pytest.approx([0.02], rel=0.01)
    assert fit.form.per_prompt_token == pytest.approx(0.0002, rel=0.01)
    assert fit.form.per_decode_step == pytest.approx(0.0008, rel=0.1)
    assert fit.form.per_context_token == pytest.approx(0.000004, rel=0.1)
    assert _residual(fit, "all") < 0.03


def test_steps_take_what_they_took_within_the_residual_that_is_told(fit: Fit) -> None:
    cost = FittedCost.of(fit, seed=1)
    for plan in (
        StepPlan(num_decode_steps=1, num_context_tokens=200),
        StepPlan(num_decode_steps=16, num_context_tokens=16 * 300),
        StepPlan(num_decode_steps=16, num_context_tokens=16 * 300, num_prompt_tokens=500),
    ):
        told = _residual(fit, "all")
        assert cost.step_time(plan) == pytest.approx(_KNOWN.step_time(plan), rel=told)


def test_noise_of_steps_is_no_coefficient_and_widens_the_residuals(fit: Fit) -> None:
    noisy = fit_vllm_spans(
        simulated_spans(NoisyCost(_KNOWN, 0.08), _requests(300, 12.0, seed=3)), MACHINE
    )
    plan = StepPlan(num_decode_steps=16, num_context_tokens=16 * 300, num_prompt_tokens=200)
    cost = FittedCost.of(noisy, seed=1)
    assert cost.step_time(plan) == pytest.approx(_KNOWN.step_time(plan), rel=0.05)
    assert 0.08 < _residual(noisy, "prefill") < 0.3
    assert _residual(fit, "prefill") < 0.02


def test_what_spans_do_not_show_is_unknown_and_listed(fit: Fit) -> None:
    assert fit.source == "vllm_spans"
    assert (fit.noise, fit.num_steps, fit.num_steps_used, fit.cold_start) == (None, 0, 0, {})
    assert fit.num_requests == 300
    told = " ".join(fit.cannot_tell)
    for each in ("never a step", "chunks", "prefix cache", "without a span", "cold start"):
        assert each in told
    assert "several under one service.name look like one" in told


def test_time_outside_of_steps_is_told_as_one(fit: Fit) -> None:
    outside = fit.overheads.arrival_to_admission
    assert outside is not None
    assert outside.median == pytest.approx(0.002, abs=0.0005)
    assert fit.overheads.selection_to_first_write is None


def test_the_most_that_ran_at_once_bounds_the_fit(fit: Fit) -> None:
    assert fit.seen is not None
    assert 28 <= (fit.seen.num_decode_steps or 0) <= 35  # 32 at once, from means


def test_a_fit_of_spans_is_read_as_it_was_written(fit: Fit) -> None:
    assert decode_fit(encode_fit(fit), "fit.json") == fit


def test_where_prompts_were_cut_their_cost_is_found_in_the_decodes_beside_them() -> None:
    cut = fit_vllm_spans(simulated_spans(_KNOWN, _requests(300, 6.0, 3), bounds=CHUNKED), MACHINE)
    assert [knot.seconds for knot in cut.form.knots] == pytest.approx([0.02], rel=0.05)
    assert cut.form.per_prompt_token == pytest.approx(0.0002, rel=0.05)
    assert cut.form.per_decode_step == pytest.approx(0.0008, rel=0.1)
    assert [each.steps for each in cut.residuals] == ["all", "decode"]
    [told] = [each for each in cut.cannot_tell if "how many steps a prefill took" in each]
    assert re.search(r"a quarter of them took over 1\.[3-6] times a step", told)


def test_the_newer_names_of_tokens_say_the_same(spans: list[EngineSpan], fit: Fit) -> None:
    renamed = [
        _without(
            _with(
                span,
                gen_ai__usage__input_tokens=span.attributes["gen_ai.usage.prompt_tokens"],
                gen_ai__usage__output_tokens=span.attributes["gen_ai.usage.completion_tokens"],
            ),
            "gen_ai.usage.prompt_tokens",
            "gen_ai.usage.completion_tokens",
        )
        for span in spans
    ]
    assert fit_vllm_spans(renamed, MACHINE) == fit


@pytest.mark.parametrize(
    "names",
    [
        ("time_in_model_prefill",),
        ("time_in_model_decode",),
        ("time_in_model_inference", "time_in_queue"),
    ],
    ids=lambda names: "+".join(names),
)
def test_a_time_that_a_release_lacks_follows_from_the_others(
    spans: list[EngineSpan], fit: Fit, names: tuple[str, ...]
) -> None:
    lacking = [_without(span, *(f"gen_ai.latency.{name}" for name in names)) for span in spans]
    found = fit_vllm_spans(lacking, MACHINE).form
    assert found.per_prompt_token == pytest.approx(fit.form.per_prompt_token, rel=1e-3)
    assert found.knots[0].seconds == pytest.approx(fit.form.knots[0].seconds, rel=1e-3)


def test_spans_of_the_oldest_engine_have_only_queue_first_token_and_end(
    spans: list[EngineSpan],
) -> None:
    oldest = [
        _without(
            span,
            "gen_ai.latency.time_in_model_prefill",
            "gen_ai.latency.time_in_model_decode",
            "gen_ai.latency.time_in_model_inference",
        )
        for span in spans
    ]
    found = fit_vllm_spans(oldest, MACHINE)
    assert found.num_requests == len(spans)
    assert found.form.per_prompt_token == pytest.approx(0.0002, rel=0.05)


def test_spans_that_lack_something_are_counted_by_what(spans: list[EngineSpan]) -> None:
    broken = [
        *(_without(span, "gen_ai.usage.completion_tokens") for span in spans[:3]),
        *(_without(span, "gen_ai.latency.time_to_first_token") for span in spans[3:5]),
        _with(spans[5], gen_ai__latency__time_in_queue="soon"),
        _with(spans[6], gen_ai__latency__time_in_model_prefill=float("nan")),
        *spans[7:],
    ]
    fit = fit_vllm_spans(broken, MACHINE)
    assert fit.num_requests == len(spans) - 7
    told = [each for each in fit.cannot_tell if "were passed over" in each]
    assert told == [
        "rows of 1 requests whose spans lack a duration in gen_ai.latency.time_in_model_prefill: "
        "they were passed over",
        "rows of 1 requests whose spans lack a duration in gen_ai.latency.time_in_queue: they "
        "were passed over",
        "rows of 3 requests whose spans lack completion tokens: they were passed over",
        "rows of 2 requests whose spans lack gen_ai.latency.time_to_first_token: they were passed "
        "over",
    ]


def test_too_few_spans_are_no_fit_and_why_is_told(spans: list[EngineSpan]) -> None:
    start_up = dataclasses.replace(spans[0], name="Load weights")
    few = [start_up, *spans[:10], _without(spans[11], "gen_ai.usage.prompt_tokens")]
    with pytest.raises(FitError) as told:
        fit_vllm_spans(few, MACHINE)
    assert str(told.value).startswith(
        "10 spans of requests can be read (1 lack prompt tokens; 1 are of something else), and at "
        "least 50 are needed"
    )
    assert "--otlp-traces-endpoint" in str(told.value)


def test_spans_of_two_models_are_no_fit(spans: list[EngineSpan]) -> None:
    named = [
        _with(span, gen_ai__response__model="small" if number % 2 else "large")
        for number, span in enumerate(spans)
    ]
    with pytest.raises(FitError, match=r"of 2 models \(large, small\).*one server"):
        fit_vllm_spans(named, MACHINE)


def test_requests_of_another_server_run_in_no_step_of_ours(
    spans: list[EngineSpan], fit: Fit
) -> None:
    others = [dataclasses.replace(span, service="another") for span in spans]
    both = fit_vllm_spans([*spans, *others], MACHINE)
    assert both.seen == fit.seen
    assert both.form.per_decode_step == pytest.approx(fit.form.per_decode_step, rel=0.05)
    assert any("the 2 servers differ by (another, vllm)" in each for each in both.cannot_tell)
