import json
from pathlib import Path
from typing import Any

import pytest

from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.document import Fit, FitFileError, load_fit, save_fit
from dataplane.simulation.fitting.fit import fit_records
from tests.dataplane.simulation.fitting.simulated_records import (
    MACHINE,
    OVERHEADS,
    simulated_records,
    varied_requests,
)


@pytest.fixture(scope="module")
def fit() -> Fit:
    cost = LinearCost(iteration=0.05, per_prompt_token=0.004, per_decode_step=0.006)
    records = simulated_records(cost, varied_requests(60, 2.0, seed=1), overheads=OVERHEADS)
    return fit_records(records, MACHINE, [{"load": 6.0}])


def test_a_fit_is_loaded_as_it_was_saved(fit: Fit, tmp_path: Path) -> None:
    save_fit(fit, tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json") == fit


def _changed(fit: Fit, path: Path, **changes: Any) -> Path:
    save_fit(fit, path)
    document = json.loads(path.read_text())
    for key, value in changes.items():
        *outer, last = key.split("__")
        place = document
        for name in outer:
            place = place[name]
        place[last] = value
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": 2}, "schema_version is 2, and this release reads 1"),
        ({"form": 3}, r"Expected `object`, got `int` - at `\$.form`"),
        ({"form__per_prompt_token": -1.0}, "form.per_prompt_token is -1"),
        ({"form__per_promt_token": 1.0}, "unknown field `per_promt_token`"),
        ({"form__knots": []}, "form.knots is empty"),
        (
            {"form__knots": [{"num_tokens": 2, "seconds": 1}, {"num_tokens": 2, "seconds": 2}]},
            "form.knots must ascend",
        ),
        (
            {"form__knots": [{"num_tokens": 1, "seconds": 2}, {"num_tokens": 2, "seconds": 1}]},
            "ends with less time for more tokens",
        ),
        ({"form__knots": [{"num_tokens": 1, "seconds": -2}]}, r"form.knots\[0\].seconds is -2"),
        (
            {"form__knots": [{"num_tokens": 10**9, "seconds": 1}]},
            r"form.knots\[0\].num_tokens is 1000000000, not in 0 to 1000000",
        ),
        (
            {"form__knots": [{"num_tokens": -1, "seconds": 1}]},
            r"form.knots\[0\].num_tokens is -1, not in 0 to 1000000",
        ),
        ({"num_requests": -1}, "num_requests is -1, less than 0"),
        ({"seen__num_tokens": -5}, "seen.num_tokens is -5, less than 0"),
        ({"cold_start__load__median": -0.5}, "cold_start.load.median is -0.5, less than 0"),
        ({"noise__decode_factors": [1.0]}, "noise has .* and 1 decode_factors"),
        ({"noise__correlation": 1.0}, r"noise.correlation is 1, not in \[0, 1\)"),
        (
            {"noise": {"shares": [0, 1], "decode_factors": [0, 2], "prompt_factors": [1, 2]}},
            "all be above 0",
        ),
        (
            {"noise": {"shares": [0.5, 1], "decode_factors": [1, 2], "prompt_factors": [1, 2]}},
            "from 0 to 1",
        ),
    ],
)
def test_what_is_no_fit_is_refused_with_its_place(
    fit: Fit, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    path = _changed(fit, tmp_path / "fit.json", **changes)
    with pytest.raises(FitFileError, match=words) as caught:
        load_fit(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FitFileError, match=r"nowhere.json cannot be read \(No such file"):
        load_fit(tmp_path / "nowhere.json")


def test_a_file_that_is_no_json_is_no_fit(tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_bytes(b"\xff not json")
    with pytest.raises(FitFileError, match=r"is no fit: .*; make one with `pilothouse fit`"):
        load_fit(tmp_path / "fit.json")
