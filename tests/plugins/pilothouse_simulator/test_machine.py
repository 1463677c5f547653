"""What a step and a start take: as the settings say, or the fit of a real replica."""

from pathlib import Path

import pytest

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.fitting.document import (
    SCHEMA_VERSION,
    Fit,
    FitFileError,
    Machine,
    Overheads,
    Spread,
    StepForm,
    TokensKnot,
    save_fit,
)
from pilothouse_simulator.machine import find_machine
from pilothouse_simulator.settings import parse_settings


@pytest.fixture
def fit_path(tmp_path: Path) -> Path:
    """A step takes 20 ms, and a start 9 s."""
    fit = Fit(
        schema_version=SCHEMA_VERSION,
        source="records",
        engine="paged",
        model="smollm2",
        model_revision="smollm2@1",
        engine_config_revision="paged@1",
        machine=Machine(name="here", processor="any", num_processors=2),
        first_at_unix_ns=None,
        last_at_unix_ns=None,
        num_requests=100,
        num_steps=1000,
        num_steps_used=1000,
        form=StepForm(knots=(TokensKnot(num_tokens=1, seconds=0.02),)),
        residuals=(),
        noise=None,
        seen=None,
        overheads=Overheads(),
        cold_start={
            stage: Spread(median=median, p95=2 * median, num_samples=3)
            for stage, median in (("load", 6.0), ("compile", 2.0), ("warm_up", 1.0))
        },
        cannot_tell=(),
    )
    save_fit(fit, tmp_path / "fit.json")
    return tmp_path / "fit.json"


def test_a_fit_says_what_steps_and_starts_take(fit_path: Path) -> None:
    machine = find_machine(parse_settings({"fit": str(fit_path)}))
    assert machine.cost.step_time(StepPlan()) == pytest.approx(0.02)
    assert machine.start_seconds.model_dump() == {"acquire": 0.0, "load": 8.0, "warm_up": 1.0}


def test_a_start_that_is_set_goes_before_the_fits(fit_path: Path) -> None:
    machine = find_machine(parse_settings({"fit": str(fit_path), "start_seconds": {"load": 1.0}}))
    assert machine.start_seconds.load == 1.0
    assert machine.start_seconds.warm_up == 0.0


def test_a_fit_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FitFileError, match=r"none\.json cannot be read"):
        find_machine(parse_settings({"fit": str(tmp_path / "none.json")}))


def test_without_a_fit_milliseconds_become_seconds_and_a_start_takes_nothing() -> None:
    machine = find_machine(parse_settings({"cost_model_ms": {"iteration": 7.0}}))
    assert machine.cost.step_time(StepPlan()) == pytest.approx(0.007)
    assert set(machine.start_seconds.model_dump().values()) == {0.0}
