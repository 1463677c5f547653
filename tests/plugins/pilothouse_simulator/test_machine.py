"""What a step and a start take: as the settings say, or the fit of a real replica."""

from pathlib import Path

import msgspec
import pytest

import pilothouse_simulator
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.fitting.document import (
    SCHEMA_VERSION,
    Fit,
    FitFileError,
    Machine,
    Noise,
    Overheads,
    Spread,
    StepForm,
    TokensKnot,
    load_fit,
    save_fit,
)
from pilothouse_simulator.core import SimulatorCore
from pilothouse_simulator.machine import find_machine
from pilothouse_simulator.settings import parse_settings
from tests.plugins.pilothouse_simulator.virtual_core import VirtualWaiting


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
    machine = find_machine(parse_settings({"fit": str(fit_path)}), "r-1")
    assert machine.cost.step_time(StepPlan()) == pytest.approx(0.02)
    assert machine.start_seconds.model_dump() == {
        "acquire": 0.0,
        "load": 6.0,
        "compile": 2.0,
        "warm_up": 1.0,
    }


def test_loading_and_compiling_are_waited_for_before_the_engine_serves(fit_path: Path) -> None:
    waiting = VirtualWaiting()
    artifact = Path(pilothouse_simulator.__file__).parent / "bytes.gguf"
    core = SimulatorCore(str(artifact), parse_settings({"fit": str(fit_path)}), waiting, "r-1")
    core.load()
    assert waiting.now() == 8.0
    core.warm_up()
    assert waiting.now() == 9.0


def noisy(fit_path: Path, replica_id: str, **settings: object) -> list[float]:
    """What steps of the same work take on a replica, where some take half and some twice."""
    noise = Noise(
        shares=(0.0, 1.0), decode_factors=(0.5, 2.0), prompt_factors=(0.5, 2.0), correlation=0.0
    )
    save_fit(msgspec.structs.replace(load_fit(fit_path), noise=noise), fit_path)
    machine = find_machine(parse_settings({"fit": str(fit_path)} | settings), replica_id)
    return [machine.cost.step_time(StepPlan()) for _ in range(200)]


def test_steps_differ_as_those_that_were_fitted_the_same_way_each_time(fit_path: Path) -> None:
    seconds = noisy(fit_path, "r-1")
    assert min(seconds) < 0.012
    assert max(seconds) > 0.036
    assert noisy(fit_path, "r-1") == seconds


@pytest.mark.parametrize(("replica_id", "seed"), [("r-2", 0), ("r-1", 1)])
def test_each_replica_and_each_seed_draws_by_itself(
    fit_path: Path, replica_id: str, seed: int
) -> None:
    assert noisy(fit_path, replica_id, seed=seed) != noisy(fit_path, "r-1", seed=0)


def test_without_noise_steps_of_the_same_work_take_the_same(fit_path: Path) -> None:
    assert list(set(noisy(fit_path, "r-1", noise="off"))) == [pytest.approx(0.02)]


def test_noise_of_no_fit_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="noise is of a fit, and cost_model_ms has none; leave"):
        parse_settings({"noise": "off"})


def test_a_stage_of_a_fit_that_nobody_knows_is_named_with_the_setting_to_use(
    fit_path: Path,
) -> None:
    baked = {"bake": Spread(median=1.0, p95=1.0, num_samples=1)}
    save_fit(msgspec.structs.replace(load_fit(fit_path), cold_start=baked), fit_path)
    with pytest.raises(FitFileError, match=r"stage bake, .* start_seconds of the engine simulator"):
        find_machine(parse_settings({"fit": str(fit_path)}), "r-1")


def test_a_start_that_is_set_goes_before_the_fits(fit_path: Path) -> None:
    machine = find_machine(
        parse_settings({"fit": str(fit_path), "start_seconds": {"load": 1.0}}), "r-1"
    )
    assert machine.start_seconds.load == 1.0
    assert machine.start_seconds.warm_up == 0.0


def test_a_fit_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FitFileError, match=r"none\.json cannot be read"):
        find_machine(parse_settings({"fit": str(tmp_path / "none.json")}), "r-1")


def test_without_a_fit_milliseconds_become_seconds_and_a_start_takes_nothing() -> None:
    machine = find_machine(parse_settings({"cost_model_ms": {"iteration": 7.0}}), "r-1")
    assert machine.cost.step_time(StepPlan()) == pytest.approx(0.007)
    assert set(machine.start_seconds.model_dump().values()) == {0.0}
