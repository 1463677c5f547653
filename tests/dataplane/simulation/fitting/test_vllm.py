import random
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
    fit = fit_vllm(_scrapes(tmp_path, dialect), MACHINE)
    cost = FittedCost.of(fit, seed=1)
    for plan in (StepPlan(num_decode_steps=4), StepPlan(num_decode_steps=4, num_prompt_tokens=60)):
        assert cost.step_time(plan) == pytest.approx(_COST.step_time(plan), rel=0.2)


def test_what_sums_do_not_show_is_unknown_and_listed(tmp_path: Path) -> None:
    fit = fit_vllm(_scrapes(tmp_path), MACHINE)
    assert fit.source == "vllm_metrics"
    assert (fit.residuals, fit.noise, fit.num_steps_used) == ((), None, 0)
    assert fit.num_steps > 50
    assert any("no noise" in each for each in fit.cannot_tell)
    assert any("cold start" in each for each in fit.cannot_tell)


def test_a_coarse_fit_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    fit: Fit = fit_vllm(_scrapes(tmp_path), MACHINE)
    save_fit(fit, tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json") == fit


def test_scrapes_the_wrong_way_round_are_refused(tmp_path: Path) -> None:
    before, after = _scrapes(tmp_path)
    with pytest.raises(FitError, match="the server restarted between them, or they are the wrong"):
        fit_vllm([after, before], MACHINE)


def test_scrapes_without_traffic_between_them_are_refused(tmp_path: Path) -> None:
    _, after = _scrapes(tmp_path)
    with pytest.raises(FitError, match="took in nothing since"):
        fit_vllm([after, after], MACHINE)


def test_a_missing_series_is_named(tmp_path: Path) -> None:
    before, after = _scrapes(tmp_path)
    kept = [line for line in after.read_text().splitlines() if "iteration_tokens" not in line]
    after.write_text("\n".join(kept) + "\n")
    with pytest.raises(FitError, match=r"after.txt lacks vllm:iteration_tokens_total"):
        fit_vllm([before, after], MACHINE)


def test_a_file_that_is_no_scrape_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("<html>")
    with pytest.raises(FitError, match=r"a.txt is no scrape.*curl"):
        fit_vllm([tmp_path / "a.txt", tmp_path / "a.txt"], MACHINE)
    with pytest.raises(FitError, match=r"nowhere.txt is no scrape: No such file"):
        fit_vllm([tmp_path / "nowhere.txt", tmp_path / "a.txt"], MACHINE)


def _save_all(folder: Path, run: ObservedRun) -> list[Path]:
    paths = [folder / f"{number:04}.txt" for number in range(len(run.scraped))]
    for path, scraped in zip(paths, run.scraped, strict=True):
        path.write_text(scraped.text)
    return paths


def _changing_load(cost: LinearCost) -> ObservedRun:
    """Alone, then more and more at once, with prompts that are short for a while, then long."""
    config = small_config(max_num_seqs=32, num_blocks=4000)
    run = ObservedRun(VLLM, config, cost=cost, every=2.0, until=120.0)
    draw = random.Random(5)
    at = 0.0
    while at < 110.0:
        at += draw.expovariate(0.5 + at / 20)
        most = 40 if at % 40 < 20 else 200
        run.submit_at(at, draw.randint(1, most), draw.randint(2, 60))
    return run.run()


_APART = LinearCost(iteration=0.02, per_prompt_token=0.0004, per_decode_step=0.0015)


def test_many_scrapes_tell_prompts_and_decodes_apart_and_how_far_off_they_are(
    tmp_path: Path,
) -> None:
    fit = fit_vllm(_save_all(tmp_path, _changing_load(_APART)), MACHINE)
    assert [knot.seconds for knot in fit.form.knots] == pytest.approx([0.02], rel=0.1)
    assert fit.form.per_prompt_token == pytest.approx(0.0004, rel=0.25)
    assert fit.form.per_decode_step == pytest.approx(0.0015, rel=0.2)
    assert any("at light load prompts look cheaper" in each for each in fit.cannot_tell)
    [residual] = fit.residuals
    assert (residual.steps, residual.num_steps > 25) == ("means", True)
    assert residual.p90 < 0.1
    assert not any("two scrapes" in each for each in fit.cannot_tell)


def test_what_lies_outside_of_queue_and_prefill_is_told_as_a_mean(tmp_path: Path) -> None:
    fit = fit_vllm(_save_all(tmp_path, _changing_load(_APART)), MACHINE)
    outside = fit.overheads.arrival_to_admission
    assert outside is not None
    assert outside.median == outside.p95 == pytest.approx(0.0, abs=1e-6)


def test_intervals_in_which_the_server_restarted_are_left_out_and_told(tmp_path: Path) -> None:
    paths = _save_all(tmp_path, _changing_load(_APART))
    restarted = [*paths[:30], *paths[10:]]
    fit = fit_vllm(restarted, MACHINE)
    assert fit.form.per_decode_step == pytest.approx(0.0015, rel=0.2)
    assert any("1 intervals were left out" in each for each in fit.cannot_tell)
