import dataclasses

import msgspec
import pytest

from dataplane.lifecycle import EventKind
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Overheads, Spread
from dataplane.simulation.fitting.fit import FitError, fit_records
from tests.dataplane.simulation.fitting.noisy_cost import NoisyCost
from tests.dataplane.simulation.fitting.simulated_records import (
    MACHINE,
    OVERHEADS,
    simulated_records,
    varied_requests,
)

_KNOWN = LinearCost(
    iteration=0.05,
    per_prompt_token=0.004,
    per_decode_step=0.006,
    per_reread_token=0.0002,
    per_context_token=0.00001,
)
_GOLDEN = LinearCost(
    iteration=0.001, per_prompt_token=0.0005, per_decode_step=0.001, per_reread_token=0.0001
)


def test_the_golden_costs_are_found_exactly() -> None:
    fit = fit_records(simulated_records(_GOLDEN, varied_requests(100, 20.0, seed=1)), MACHINE)
    assert [knot.seconds for knot in fit.form.knots] == pytest.approx([0.001])
    assert fit.form.per_prompt_token == pytest.approx(0.0005)
    assert fit.form.per_decode_step == pytest.approx(0.001)
    assert fit.form.per_reread_token == pytest.approx(0.0001)
    assert fit.residuals[0].median < 1e-6


def test_known_costs_are_found_through_noise_transit_and_overheads() -> None:
    records = simulated_records(
        NoisyCost(_KNOWN, 0.08),
        varied_requests(250, 3.0, seed=2),
        overheads=OVERHEADS,
        transit=0.002,
    )
    fit = fit_records(records, MACHINE)
    assert fit.form.per_prompt_token == pytest.approx(0.004, rel=0.05)
    # Rows and their context grow together: noise moves cost from one to the other.
    assert fit.form.per_decode_step == pytest.approx(0.006, rel=0.25)
    assert fit.form.knots[0].seconds == pytest.approx(0.05, rel=0.1)
    cost = FittedCost.of(fit, seed=None)
    for plan in (
        StepPlan(num_decode_steps=2, num_context_tokens=250),
        StepPlan(num_decode_steps=8, num_context_tokens=900, num_prompt_tokens=64),
    ):
        assert cost.step_time(plan) == pytest.approx(_KNOWN.step_time(plan), rel=0.06)
    everything = fit.residuals[0]
    assert everything.steps == "all"
    assert everything.num_steps == fit.num_steps_used
    assert 0.04 < everything.median < 0.08  # of a lognormal with a sigma of 0.08: 0.054
    assert everything.p90 < 0.2
    assert abs(everything.bias) < 0.03


def test_wild_steps_are_noise_and_not_coefficients() -> None:
    records = simulated_records(
        NoisyCost(_KNOWN, 0.03, wild=0.03), varied_requests(250, 3.0, seed=3)
    )
    fit = fit_records(records, MACHINE)
    assert fit.form.per_prompt_token == pytest.approx(0.004, rel=0.05)
    assert fit.noise is not None
    assert fit.noise.decode_factors[-1] > 7
    assert fit.noise.decode_factors[len(fit.noise.shares) // 2] == pytest.approx(1.0, abs=0.02)


def test_the_fit_predicts_the_steps_of_its_engine() -> None:
    fit = fit_records(simulated_records(_KNOWN, varied_requests(150, 3.0, seed=4)), MACHINE)
    cost = FittedCost.of(fit, seed=None)
    for plan in (
        StepPlan(num_decode_steps=1, num_context_tokens=40),
        StepPlan(num_decode_steps=12, num_context_tokens=900),
    ):
        assert cost.step_time(plan) == pytest.approx(_KNOWN.step_time(plan), rel=0.01)


def test_what_surrounds_the_steps_is_measured() -> None:
    records = simulated_records(_KNOWN, varied_requests(200, 0.7, seed=5), overheads=OVERHEADS)
    found = fit_records(records, MACHINE).overheads
    assert found.arrival_to_admission is not None
    assert found.arrival_to_admission.median == pytest.approx(0.002, rel=0.15)
    assert found.arrival_to_admission.p95 == pytest.approx(0.004, rel=0.3)
    assert found.admission_to_idle_engine is not None
    assert found.admission_to_idle_engine.median == pytest.approx(0.001, rel=0.2)
    assert found.selection_to_first_write is not None
    assert found.selection_to_first_write.median == pytest.approx(0.003, rel=0.15)


def test_what_a_slow_client_makes_the_gateway_wait_is_no_overhead() -> None:
    records = simulated_records(_KNOWN, varied_requests(100, 0.7, seed=5), overheads=OVERHEADS)
    slow = [
        dataclasses.replace(
            record,
            events=tuple(
                msgspec.structs.replace(event, at=event.at + 5.0, waited_seconds=5.0)
                if event.kind is EventKind.LAST_WRITE
                else event
                for event in record.events
            ),
        )
        for record in records
    ]
    found = fit_records(slow, MACHINE).overheads.finish_to_last_write
    assert found is not None
    assert found == fit_records(records, MACHINE).overheads.finish_to_last_write
    assert found.median == pytest.approx(0.001, rel=0.15)


def test_cold_starts_are_told_by_stage() -> None:
    records = simulated_records(_KNOWN, varied_requests(60, 3.0, seed=6))
    starts = [{"acquire": 1.0, "load": 6.0}, {"acquire": 3.0, "load": 8.0, "warm_up": 0.5}]
    fit = fit_records(records, MACHINE, starts)
    assert {stage: spread.median for stage, spread in fit.cold_start.items()} == {
        "acquire": 2.0,
        "load": 7.0,
        "warm_up": 0.5,
    }
    assert fit.cold_start["warm_up"].num_samples == 1
    assert not any("cold start" in each for each in fit.cannot_tell)


def test_too_few_steps_are_no_fit_and_the_remedy_is_told() -> None:
    records = simulated_records(_KNOWN, varied_requests(2, 3.0, seed=7))
    with pytest.raises(FitError, match=r"a fit needs 50.*Remedy: send more traffic"):
        fit_records(records, MACHINE)


def test_a_sample_of_the_records_is_refused_where_it_hides_too_much() -> None:
    records = simulated_records(_KNOWN, varied_requests(100, 3.0, seed=8))
    with pytest.raises(
        FitError, match=r"90 requests between them are missing: take records of all"
    ):
        fit_records(records[9::10], MACHINE)


def test_records_of_two_configs_are_no_fit() -> None:
    records = simulated_records(_KNOWN, varied_requests(100, 3.0, seed=9))
    other = dataclasses.replace(records[50], engine_config_revision="paged@2")
    with pytest.raises(FitError, match=r"2 different engines.*paged@1.*paged@2.*--since"):
        fit_records([*records[:50], other, *records[51:]], MACHINE)


def test_no_records_are_no_fit() -> None:
    with pytest.raises(FitError, match="none of the requests reached a replica"):
        fit_records([], MACHINE)


def test_what_a_crowd_waits_for_itself_is_no_overhead_of_a_request() -> None:
    records = simulated_records(_KNOWN, varied_requests(100, 0.7, seed=5), overheads=OVERHEADS)
    slow = Overheads(arrival_to_admission=Spread(median=0.15, p95=0.15, num_samples=1))
    crowd = simulated_records(_KNOWN, varied_requests(60, 1e6, seed=6), overheads=slow)
    later = records[-1].arrived_at_unix_ns - crowd[0].arrived_at_unix_ns + 600 * 10**9
    behind = [
        dataclasses.replace(
            record,
            request_id=f"crowd-{number}",
            gateway_sequence=100 + number,
            arrived_at_unix_ns=record.arrived_at_unix_ns + later,
        )
        for number, record in enumerate(crowd)
    ]
    found = fit_records([*records, *behind], MACHINE).overheads.arrival_to_admission
    assert found is not None
    assert found.p95 < 0.01
