from pathlib import Path

import pytest

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit, load_fit, save_fit
from dataplane.simulation.fitting.fit import FitError
from dataplane.simulation.fitting.vllm import fit_vllm
from dataplane.simulation.observer.dialect import Dialect
from dataplane.simulation.observer.vllm import VLLM, VLLM_0_10
from tests.dataplane.simulation.fitting.simulated_records import MACHINE
from tests.dataplane.simulation.observed_run import ObservedRun, small_config

_COST = LinearCost(iteration=0.02, per_prompt_token=0.0005, per_decode_step=0.0005)


def _scrapes(folder: Path, dialect: Dialect = VLLM) -> tuple[Path, Path]:
    run = ObservedRun(dialect, small_config(num_blocks=400), cost=_COST)
    run.submit_many(60)
    run.run()
    paths = folder / "before.txt", folder / "after.txt"
    for path, scraped in zip(paths, (run.scraped[0], run.scraped[-1]), strict=True):
        path.write_text(scraped.text)
    return paths


@pytest.mark.parametrize("dialect", [VLLM, VLLM_0_10], ids=lambda dialect: dialect.name)
def test_two_scrapes_carry_a_line_over_the_tokens_of_a_step(
    tmp_path: Path, dialect: Dialect
) -> None:
    fit = fit_vllm(*_scrapes(tmp_path, dialect), MACHINE)
    cost = FittedCost.of(fit, seed=1)
    for plan in (StepPlan(num_decode_steps=4), StepPlan(num_decode_steps=4, num_prompt_tokens=60)):
        assert cost.step_time(plan) == pytest.approx(_COST.step_time(plan), rel=0.2)


def test_what_sums_do_not_show_is_unknown_and_listed(tmp_path: Path) -> None:
    fit = fit_vllm(*_scrapes(tmp_path), MACHINE)
    assert fit.source == "vllm_metrics"
    assert (fit.residuals, fit.noise, fit.num_steps_used) == ((), None, 0)
    assert fit.num_steps > 50
    assert any("no residuals" in each for each in fit.cannot_tell)
    assert any("cold start" in each for each in fit.cannot_tell)


def test_a_coarse_fit_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    fit: Fit = fit_vllm(*_scrapes(tmp_path), MACHINE)
    save_fit(fit, tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json") == fit


def test_scrapes_the_wrong_way_round_are_refused(tmp_path: Path) -> None:
    before, after = _scrapes(tmp_path)
    with pytest.raises(FitError, match="the server restarted between them, or they are the wrong"):
        fit_vllm(after, before, MACHINE)


def test_scrapes_without_traffic_between_them_are_refused(tmp_path: Path) -> None:
    _, after = _scrapes(tmp_path)
    with pytest.raises(FitError, match="took in nothing since"):
        fit_vllm(after, after, MACHINE)


def test_a_missing_series_is_named(tmp_path: Path) -> None:
    before, after = _scrapes(tmp_path)
    kept = [line for line in after.read_text().splitlines() if "iteration_tokens" not in line]
    after.write_text("\n".join(kept) + "\n")
    with pytest.raises(FitError, match=r"after.txt lacks vllm:iteration_tokens_total"):
        fit_vllm(before, after, MACHINE)


def test_a_file_that_is_no_scrape_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("<html>")
    with pytest.raises(FitError, match=r"a.txt is no scrape.*curl"):
        fit_vllm(tmp_path / "a.txt", tmp_path / "a.txt", MACHINE)
    with pytest.raises(FitError, match=r"nowhere.txt is no scrape: No such file"):
        fit_vllm(tmp_path / "nowhere.txt", tmp_path / "a.txt", MACHINE)
