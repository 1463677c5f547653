"""Settings of the simulator: what is wrong is named with its remedy, and needs no torch."""

import subprocess
import sys
from typing import Any

import pytest

from pilothouse_simulator.settings import check_settings, parse_settings


def test_without_any_everything_has_a_default() -> None:
    assert parse_settings({}).bounds().num_blocks == 1024


@pytest.mark.parametrize(
    ("settings", "key", "says"),
    [
        ({"max_num_seq": 8}, "max_num_seq", "did you mean max_num_seqs?"),
        (
            {"cost_model_ms": {"iterations": 1.0}},
            "cost_model_ms.iterations",
            "did you mean iteration? Valid: iteration, per_context_token",
        ),
        (
            {"memory": {"weights": "14GB", "kv_per_token": "1KiB"}},
            "memory.weights",
            "such as 512MiB",
        ),
        ({"start_seconds": {"load": -1.0}}, "start_seconds.load", "greater than or equal to 0"),
        ({"output_tokens": {}}, "output_tokens", "give constant, or median with sigma"),
        (
            {"output_tokens": {"constant": 3, "median": 3.0, "sigma": 1.0}},
            "output_tokens",
            "give constant, or median with sigma",
        ),
        ({"output_tokens": {"median": 3.0}}, "output_tokens", "median needs sigma"),
        ({"output_tokens": {"constant": 3, "most": 9}}, "output_tokens", "belong to median"),
        ({"fit": "fit.json"}, "", "must be an absolute path"),
        ({"fit": "/fit.json", "cost_model_ms": {}}, "", "not both"),
        ({"max_num_seqs": 8, "max_num_batched_tokens": 4}, "", "raise the first or lower"),
        ({"num_blocks": 4, "max_model_len": 65}, "", "the KV pool holds 64 tokens"),
        (
            {"memory": {"weights": "2GiB", "kv_per_token": "1KiB", "device": "1GiB"}},
            "",
            "no KV block fits into memory.device",
        ),
        (
            {
                "memory": {"weights": "1GiB", "kv_per_token": "1MiB", "device": "2GiB"},
                "num_blocks": 65,
            },
            "",
            "64 blocks fit",
        ),
        ({"time_scale": 0.0}, "time_scale", "greater than 0"),
    ],
)
def test_what_cannot_work_is_named(settings: dict[str, Any], key: str, says: str) -> None:
    ((where, what),) = check_settings(settings)
    assert where == key
    assert says in what


def test_every_problem_is_reported() -> None:
    problems = check_settings({"block_size": "16", "seed": -1})
    assert {key for key, _ in problems} == {"block_size", "seed"}


@pytest.mark.parametrize("module", ["client", "process", "core", ""])
def test_nothing_of_the_simulator_imports_torch(module: str) -> None:
    name = f"pilothouse_simulator.{module}".rstrip(".")
    code = f"import sys, {name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
