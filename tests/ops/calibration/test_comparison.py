from pathlib import Path
from xml.etree import ElementTree

import pytest

from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.fit import fit_records
from ops.calibration.comparison import FIGURES, Comparison, compare, quantile
from ops.calibration.picture import draw
from ops.calibration.saturation import measure_saturation, pace_of
from tests.dataplane.simulation.fitting.simulated_records import (
    BOUNDS,
    MACHINE,
    OVERHEADS,
    simulated_records,
    varied_requests,
)

_COST = LinearCost(iteration=0.05, per_prompt_token=0.004, per_decode_step=0.006)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Fitted to light traffic, compared on heavy traffic of the same replica."""
    training = simulated_records(_COST, varied_requests(80, 1.0, seed=1), overheads=OVERHEADS)
    fit = fit_records(training, MACHINE)
    testing = simulated_records(_COST, varied_requests(120, 3.0, seed=2), overheads=OVERHEADS)
    return compare("near", testing, fit, BOUNDS, seed=1)


def test_a_replica_without_noise_is_predicted_on_other_traffic(comparison: Comparison) -> None:
    assert comparison.num_requests == 120
    assert dict(zip(FIGURES, comparison.errors, strict=True)) == pytest.approx(
        dict.fromkeys(FIGURES, 0.0), abs=0.03
    )


def test_the_picture_has_a_panel_for_each_load_and_latency(
    comparison: Comparison, tmp_path: Path
) -> None:
    draw([comparison], tmp_path / "fit.svg", "what <it> is of & more")
    root = ElementTree.parse(tmp_path / "fit.svg").getroot()
    words = [element.text for element in root.iter() if element.text]
    assert {"TTFT, near saturation", "TPOT, near saturation"} <= set(words)
    assert "what <it> is of & more" in words
    curves = [element for element in root.iter() if element.tag.endswith("polyline")]
    assert len(curves) == 2 * (1 + len(comparison.simulated))


def test_saturation_is_the_pace_that_a_flooded_replica_keeps_up() -> None:
    crowd = simulated_records(_COST, varied_requests(80, 1e6, seed=3))
    pace = measure_saturation(crowd, BOUNDS.scheduler.max_num_seqs)
    flood = simulated_records(_COST, varied_requests(1000, 1e6, seed=4))
    seconds = max(record.latencies.server.e2e or 0.0 for record in flood)
    assert pace == pytest.approx(len(flood) / seconds, rel=0.12)


def test_a_crowd_that_does_not_fill_the_house_tells_no_saturation() -> None:
    crowd = simulated_records(_COST, varied_requests(10, 1e6, seed=3))
    with pytest.raises(ValueError, match="10 requests do not fill 16 slots"):
        measure_saturation(crowd, BOUNDS.scheduler.max_num_seqs)


def test_quantiles_are_by_nearest_rank() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0


def test_a_pace_is_of_the_time_in_which_the_house_is_full() -> None:
    """Two slots; each request has four tokens, one a second, and the next follows at once."""
    begun = [0.0, 0.0, 4.0, 4.0, 8.0, 8.0]
    tokens = [[start + number for number in (1.0, 2.0, 3.0, 4.0)] for start in begun]
    assert pace_of(begun, tokens, num_slots=2) == pytest.approx(2 / 4)
